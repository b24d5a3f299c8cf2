import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OutputTail } from '../../src/sandbox/output-tail.ts';

test('keeps exactly the last bytes, however they were written', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 600 }),
      fc.nat(200),
      (chunks, limit) => {
        const tail = new OutputTail(limit);
        for (const chunk of chunks) tail.push(chunk);
        const all = Buffer.concat(chunks);
        expect(tail.written).toBe(all.length);
        expect(tail.bytes()).toEqual(all.subarray(Math.max(0, all.length - limit)));
      },
    ),
  );
});

test('starts its text with a whole character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 100 }), fc.nat(60), (text, limit) => {
      const tail = new OutputTail(limit);
      tail.push(Buffer.from(text));
      const kept = tail.text();
      expect(text.endsWith(kept)).toBe(true);
      expect(Buffer.byteLength(kept)).toBeGreaterThan(Math.min(limit, Buffer.byteLength(text)) - 4);
    }),
  );
});
