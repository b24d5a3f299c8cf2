import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeMessage, MessageReader } from '../../src/sandbox/e2b/frames.ts';

const message = fc.record({
  header: fc.dictionary(fc.string({ unit: 'binary' }), fc.oneof(fc.integer(), fc.string({ unit: 'binary' }))),
  body: fc.uint8Array({ maxLength: 300 }),
});

test('messages come out of lines of base64 as they went in, wherever the text was cut', () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 6 }),
      fc.integer({ min: 1, max: 97 }),
      fc.integer({ min: 1, max: 61 }),
      (messages, chunk, cut) => {
        const bytes = Buffer.concat(messages.map(({ header, body }) => encodeMessage(header, body)));
        let text = '';
        for (let at = 0; at < bytes.length; at += chunk) {
          text += `${bytes.subarray(at, at + chunk).toString('base64')}\n`;
        }
        const reader = new MessageReader();
        const read = [];
        for (let at = 0; at < text.length; at += cut) read.push(...reader.push(text.slice(at, at + cut)));
        expect(read.map(({ header, body }) => ({ header, body: [...body] }))).toEqual(
          messages.map(({ header, body }) => ({
            header: JSON.parse(JSON.stringify(header)) as unknown,
            body: [...body],
          })),
        );
      },
    ),
  );
});
