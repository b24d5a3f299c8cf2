import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  deepestPickle,
  pickle,
  PickleError,
  Tuple,
  type Picklable,
} from '../../../src/fleet/verifier/pickle.ts';
import { askPython, pythonTold } from './python.ts';

/** The values as CPython reads them back, in the form of `told`. */
const read = (values: readonly Picklable[]): unknown =>
  askPython(
    `${pythonTold}
import base64, json, pickle, sys
print(json.dumps([told(pickle.loads(base64.b64decode(one))) for one in json.load(sys.stdin)]))`,
    values.map((value) => Buffer.from(pickle(value)).toString('base64')),
  );

function hexOf(text: string): string {
  return Buffer.from(text, 'utf16le').swap16().toString('hex');
}

function told(value: Picklable): unknown {
  if (value === null) return ['none'];
  if (typeof value === 'boolean') return ['bool', value];
  if (typeof value === 'bigint') return ['int', `${value}`];
  if (typeof value === 'string') return ['str', hexOf(value)];
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) return ['int', `${value}`];
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value);
    return ['float', bytes.toString('hex')];
  }
  if (value instanceof Tuple) return ['tuple', value.items.map(told)];
  if (Array.isArray(value)) return ['list', (value as Picklable[]).map(told)];
  const entries = Object.entries(value).map(([key, item]) => [hexOf(key), told(item)] as const);
  return ['dict', entries.sort(([a], [b]) => (a < b ? -1 : 1))];
}

const anyString = fc.oneof(
  fc.string({ unit: 'binary' }),
  // Halves of surrogate pairs among others.
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);
const { value: picklable } = fc.letrec<{ value: Picklable }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true }),
    fc.bigInt({ min: -(2n ** 300n), max: 2n ** 300n }),
    anyString,
    fc.array(tie('value'), { maxLength: 5 }),
    fc.array(tie('value'), { maxLength: 5 }).map((items) => new Tuple(...items)),
    fc.dictionary(anyString, tie('value'), { maxKeys: 5 }),
  ),
}));

describe('a pickle', () => {
  it('is read back by CPython as it was', () => {
    const seed = Date.now() % 2 ** 31;
    const values = fc.sample(picklable, { numRuns: 1_000, seed });
    const back = read(values) as unknown[];
    for (const [index, value] of values.entries()) expect(back[index], `seed ${seed}`).toEqual(told(value));
  });

  it('holds the borders of each form of a number', () => {
    const borders = [0, 1, 7, 8, 15, 16, 31, 32, 53, 63, 64, 127, 2_039, 2_040, 2_047, 2_048, 5_000];
    const values = borders.flatMap((bits) => {
      const power = 2n ** BigInt(bits);
      return [power - 1n, power, power + 1n, -power - 1n, -power, -power + 1n];
    });
    const numbers = [
      0,
      -0,
      0.5,
      -1.5,
      1e300,
      -1e-300,
      5e-324,
      Infinity,
      -Infinity,
      2 ** 53,
      2 ** 31,
      -(2 ** 31),
    ];
    const all = [...values, ...values.map(Number).filter(Number.isFinite), ...numbers];
    expect(read(all)).toEqual(all.map(told));
    expect(read([NaN])).toEqual([['float', expect.stringMatching(/^[7f]ff8/)]]);
  });

  it('may be large', () => {
    const value = { text: 'naïve 🏨 '.repeat(50_000), list: Array.from({ length: 20_000 }, (_, i) => i) };
    expect(JSON.stringify(read([value]))).toBe(JSON.stringify([told(value)]));
  });

  it('holds a key that is special in JavaScript', () => {
    const value = JSON.parse('{"__proto__": {"constructor": 1}}') as Picklable;
    expect(read([value])).toEqual([
      ['dict', [[hexOf('__proto__'), ['dict', [[hexOf('constructor'), ['int', '1']]]]]]],
    ]);
  });

  it('is nested as deep as allowed and no deeper', () => {
    const nested = (depth: number): Picklable => {
      let value: Picklable = 1;
      for (let i = 0; i < depth; i++)
        value = i % 3 === 0 ? [value] : i % 3 === 1 ? new Tuple(value) : { value };
      return value;
    };
    expect(read([nested(deepestPickle)])).toEqual([told(nested(deepestPickle))]);
    expect(() => pickle(nested(deepestPickle + 1))).toThrow(`nested deeper than ${deepestPickle}`);
    const endless: Picklable[] = [];
    endless.push(endless);
    expect(() => pickle(endless)).toThrow(PickleError);
  });

  it.each([
    ['a function', () => 1],
    ['nothing', undefined],
    ['an object of a class', new Date()],
    ['a map', new Map()],
    ['nothing inside of an object', { a: undefined }],
  ])('refuses %s', (_what, value) => {
    expect(() => pickle(value as unknown as Picklable)).toThrow(PickleError);
  });
});
