import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EpisodeError } from '../../../src/contracts/index.ts';
import {
  readSignature,
  VerifierSourceError,
  type VerifierSignature,
} from '../../../src/fleet/verifier/signature.ts';
import { askPython, pythonSignature } from './python.ts';

const inPython = (sources: readonly string[]): unknown =>
  askPython(
    `${pythonSignature}
import json, sys
print(json.dumps([signature(source) for source in json.load(sys.stdin)]))`,
    sources,
  );

const signature = (name: string, ...parameters: string[]): VerifierSignature => ({
  name,
  parameters,
  any_keyword: false,
});

/** Statements that may stand before a function, each with something in it that looks like one. */
const before = [
  '"""def quoted(env): pass\n\ndef quoted_too(a):\n    pass\n"""',
  "'''a ''quoted'' def in'''",
  'r"a\\"b def x():"; x = 1',
  "'it\\'s def x(a):'",
  '# def commented(a): pass',
  'import re, json',
  'x = (\n1,\n)\n',
  'y = {"def z(a)": [1, (2)],\n  # ) ] def w():\n}\n',
  'z = 1 + \\\n  2',
  'class A:\n    def method(self, a): pass\n',
  'if True:\n\tdef inner(a): pass',
  'text = f"{1!r:{2}} {{def}} {[3][0]:>{4}}"',
  'late = f\'{"a"}\' f"""{\'b\'\n}"""',
  'n = 1_000.5e-3 + 0x1f + 1j',
  '@verifier(key="def k(a)", n=(1,\n  2))',
  'g = lambda a, b=(1, 2): a',
  'defined = async_ = 1',
  '\f',
  '',
];
const parameter = fc.constantFrom(
  'final_answer',
  'final_answer: str | None = None',
  'conversation: "list[dict]" = None',
  'a: Dict[str, Tuple[int, int]] = {"x": (1, 2), "y, z": [")"]}',
  "b='(, ) # no comment'",
  'c=lambda x, y=(1, 2): (x, y)',
  'd: "a, b" = f"{1, 2}"',
  'e=(1,  # ), f(\n      2)',
  'ñ=None',
);
const list = fc
  .record({
    head: fc.constantFrom('env', 'env: Environment', 'env, /', '\n    env: Environment'),
    parameters: fc.uniqueArray(parameter, { maxLength: 6, selector: (text) => /^[^:=]+/.exec(text)?.[0] }),
    star: fc.constantFrom(null, '*', '*args', '*args: int'),
    keywords: fc.constantFrom(null, '**kwargs', '**kwargs: Any'),
    separator: fc.constantFrom(', ', ',\n    ', ' , # a, b\n', ',\\\n'),
    last: fc.constantFrom('', ',', ',\n'),
  })
  .map(({ head, parameters, star, keywords, separator, last }) => {
    // One without a default may not follow one with a default, other than behind a star.
    const withDefault = parameters.filter((text) => text.includes('='));
    const without = parameters.filter((text) => !text.includes('='));
    const named = star === '*' && withDefault.length === 0;
    const parts = [head, ...without, ...(star === null || named ? [] : [star]), ...withDefault];
    return [...parts, ...(keywords === null ? [] : [keywords])].join(separator) + last;
  });
const source = fc
  .record({
    before: fc.array(fc.constantFrom(...before.filter((text) => !text.startsWith('@'))), { maxLength: 6 }),
    decorators: fc.array(fc.constantFrom('@verifier(key="def k(a)")', '@a.b\n# def c():'), { maxLength: 2 }),
    def: fc.constantFrom('def ', 'async def ', 'def\t', 'async   def \\\n '),
    name: fc.constantFrom('verify', 'validate_task', 'validate_task_isk4_17', 'main', 'прüfe', 'ﬁnal'),
    list,
    returns: fc.constantFrom('', ' -> int', ' -> "def x(y)"'),
    end: fc.constantFrom('\n', '\r\n', '\r'),
  })
  .map((parts) =>
    [
      ...parts.before,
      ...parts.decorators,
      `${parts.def}${parts.name}(${parts.list})${parts.returns}:\n    return 1\n`,
      'def later(b): pass\n',
    ]
      .join('\n')
      .replaceAll('\n', parts.end),
  );

describe("a verifier's function", () => {
  it('is the one that CPython sees first, with the parameters that it sees', () => {
    const seed = Date.now() % 2 ** 31;
    const sources = fc.sample(source, { numRuns: 400, seed });
    const seen = inPython(sources) as unknown[];
    for (const [index, text] of sources.entries()) {
      expect(readSignature(text), `seed ${seed}:\n${text}`).toEqual(seen[index]);
    }
  });

  it.each([
    ['no parameters', 'def verify(): pass', signature('verify')],
    ['a body that breaks off', 'def verify(env): return (', signature('verify', 'env')],
    ['a byte order mark before it', '\uFEFFdef verify(env): pass', signature('verify', 'env')],
    ['parameters of types', 'def verify[T: (int, str)](env: T): pass', signature('verify', 'env')],
    [
      'the same quotes inside of an f-string before it',
      'x = f"{d["def a(b)"]:{w["}"]}} {f"{1 + 1}"}"\ndef verify(env): pass',
      signature('verify', 'env'),
    ],
    [
      'quotes in the format of an f-string before it',
      'x = f"{1:\'>10}"\ndef verify(env): pass',
      signature('verify', 'env'),
    ],
    [
      'a bracket in the format of an f-string before it',
      'x = f"{1:(>9}"\ndef verify(env): pass',
      signature('verify', 'env'),
    ],
    [
      'a named character before it',
      'x = f"\\N{DASH} {1}"\ndef verify(env): pass',
      signature('verify', 'env'),
    ],
    ['any keyword', 'def verify(env, **rest): pass', { ...signature('verify', 'env'), any_keyword: true }],
  ])('may have %s', (_what, text, expected) => {
    expect(readSignature(text)).toEqual(expected);
  });
});

describe('source without a function to call', () => {
  it.each([
    ['nothing', '', 'is empty'],
    ['white space', ' \n\t', 'is empty'],
    ['statements alone', 'x = 1\nprint(x)\n', 'defines no function at its top level'],
    [
      'a function in a string alone',
      '"""\ndef verify(env): pass\n"""',
      'defines no function at its top level',
    ],
    ['a method alone', 'class A:\n    def verify(self): pass', 'defines no function at its top level'],
    ['a function that is indented', '  def verify(env): pass', 'defines no function at its top level'],
    ['the word async alone', 'async', 'defines no function at its top level'],
    [
      'a function without a name',
      '\ndef (env): pass',
      'has a function in line 2 whose parameters cannot be read',
    ],
    [
      'parameters that never end',
      'def verify(env',
      'has a function in line 1 whose parameters cannot be read',
    ],
    [
      'type parameters that never end',
      'def verify[T',
      'has a function in line 1 whose parameters cannot be read',
    ],
    [
      'a text that never ends',
      'x = 1\n"""\ndef verify(env): pass',
      'has a string in line 2 that is never closed',
    ],
    [
      'a string over the end of its line',
      "x = 'a\ndef verify(env): pass",
      'has a string in line 1 that is never closed',
    ],
    [
      'an f-string that never ends',
      'x = f"{a\ndef verify(env): pass',
      'has a string in line 1 that is never closed',
    ],
    ['a NUL', 'def verify(env): pass\0', 'has a NUL character in it'],
    ['half of a character', 'def verify(env): "\ud800"', 'has half of a character in it'],
    ['strings in strings without end', 'f"{'.repeat(100_000), 'is nested too deeply'],
  ])('(%s) is a fault of the task, told in one line', (_what, text, said) => {
    const read = (): unknown => readSignature(text);
    expect(read).toThrow(VerifierSourceError);
    expect(read).toThrow(EpisodeError);
    try {
      read();
    } catch (fault) {
      expect((fault as EpisodeError).failure).toEqual({
        class: 'task',
        phase: 'grade',
        code: 'verifier_source',
        message: `the verifier ${said}`,
        retryable: false,
      });
    }
  });

  it('never is another error, whatever the text', () => {
    const piece = fc.constantFrom(
      'def ',
      'f"',
      '"',
      "'",
      '"""',
      '{',
      '}',
      '(',
      ')',
      '[',
      ':',
      '\\',
      '\n',
      '#',
      'x',
      ',',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        try {
          readSignature(pieces.join(''));
        } catch (fault) {
          expect(fault).toBeInstanceOf(VerifierSourceError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
