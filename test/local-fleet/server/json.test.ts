import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pythonJson } from '../../../src/local-fleet/server/http/json.ts';

describe('JSON as Python writes it', () => {
  it('is JSON where there is nothing that JSON lacks', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(pythonJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('never turns a number that is not finite into null, wherever it stands', () => {
    const number = fc.constantFrom(NaN, Infinity, -Infinity);
    const around = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        number,
        fc.tuple(fc.string(), tie('tree')).map(([key, value]) => ({ [`k${key}`]: value, 'a"b': 'NaN' })),
        tie('tree').map((value) => [1, value, 'null']),
      ),
    })).tree;
    fc.assert(
      fc.property(around, (value) => {
        const text = pythonJson(value).replaceAll(/-?Infinity|(?<!")NaN/g, '12345');
        expect(JSON.stringify(JSON.parse(text))).toContain('12345');
        expect(text).not.toMatch(/[^"]null/);
      }),
    );
  });
});
