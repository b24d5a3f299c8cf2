import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOutputTail } from '../../../src/agents/claude-code/output-tail.ts';

const secret = 'BEARER-0123456789';

describe('the tail of an output', () => {
  it('is the end of what was written, however it came', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 })), fc.integer({ min: 1, max: 40 }), (pieces, max) => {
        const tail = createOutputTail(max);
        for (const piece of pieces) tail.push(Buffer.from(piece));
        expect(tail.text()).toBe(pieces.join('').slice(-max));
        expect(tail.text()).toBe(pieces.join('').slice(-max));
      }),
    );
  });

  it('never shows a secret, nor the rest of one that was cut in two', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 400 }),
        fc.nat({ max: 60 }),
        fc.integer({ min: 1, max: 30 }),
        (before, after, max) => {
          const tail = createOutputTail(max, [secret]);
          tail.push(Buffer.from('a'.repeat(before)));
          for (const char of secret) tail.push(Buffer.from(char));
          tail.push(Buffer.from('b'.repeat(after)));
          expect(tail.text()).not.toMatch(/[0-9]/);
          expect(tail.text().length).toBeLessThanOrEqual(max);
        },
      ),
    );
  });
});
