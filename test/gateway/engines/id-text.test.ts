import fc from 'fast-check';
import { expect, test } from 'vitest';
import { idText } from '../../../src/gateway/engines/id-text.ts';

test('ids are written as joining them would', () => {
  const id = fc.oneof(
    fc.nat({ max: 200_000 }),
    fc.nat({ max: 0x7fffffff }),
    fc.constantFrom(0, 9, 10, 0x7fffffff),
  );
  fc.assert(
    fc.property(fc.array(id), (ids) => {
      expect(idText(Int32Array.from(ids))).toBe(ids.join(','));
    }),
  );
});
