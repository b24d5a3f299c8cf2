import fc from 'fast-check';
import { expect, test } from 'vitest';
import { legalNames } from '../../../src/fleet/mcp/tool-names.ts';

test('legal names stay, others are made legal without taking a name away', () => {
  const long = 'x'.repeat(70);
  expect([...legalNames(['a.b', 'a_b', 'a/b', '', long, `${long}y`, 'Größe'])]).toEqual([
    ['a_b_2', 'a.b'],
    ['a_b', 'a_b'],
    ['a_b_3', 'a/b'],
    ['tool', ''],
    ['x'.repeat(64), long],
    [`${'x'.repeat(62)}_2`, `${long}y`],
    ['Gr__e', 'Größe'],
  ]);
});

test('property: every name is legal, leads back to its tool, and is the same every time', () => {
  const name = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.stringMatching(/^[ab._]{1,3}$/));
  fc.assert(
    fc.property(fc.uniqueArray(name), (names) => {
      const mapped = legalNames(names);
      expect([...mapped.values()]).toEqual(names);
      for (const [legal, own] of mapped) {
        expect(legal).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
        if (/^[a-zA-Z0-9_-]{1,64}$/.test(own)) expect(legal).toBe(own);
      }
      expect(legalNames(names)).toEqual(mapped);
    }),
  );
});
