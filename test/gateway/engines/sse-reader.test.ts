import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SseReader } from '../../../src/gateway/engines/sse-reader.ts';

function read(chunks: readonly Buffer[]): (string | null)[] {
  const reader = new SseReader();
  return [...chunks.flatMap((chunk) => reader.push(chunk)), reader.end()];
}

/** `bytes` cut at these places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const edges = [0, ...places.map((at) => at % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((to, at) => bytes.subarray(edges[at], to));
}

test.each([
  ['LF', 'data: a\n\ndata: b\n\n', ['a', 'b', null]],
  ['CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', ['a', 'b', null]],
  ['no space, more space', 'data:a\n\ndata:  b\n\n', ['a', ' b', null]],
  ['several lines of data', 'data: a\ndata: b\n\n', ['a\nb', null]],
  ['comments and other fields', ': ping\n\nevent: x\nid: 3\nretry: 5\ndata: a\n\n', ['a', null]],
  ['blank lines', '\n\n\ndata: a\n\n\n\n', ['a', null]],
  ['empty data', 'data:\n\n', ['', null]],
  ['no blank line at the end', 'data: a\n\ndata: [DONE]\n', ['a', '[DONE]']],
  ['no line break at the end', 'data: a\n\ndata: [DONE]', ['a', '[DONE]']],
  ['nothing', '', [null]],
])('%s', (_name, text, events) => {
  expect(read([Buffer.from(text)])).toEqual(events);
});

test('events are the same wherever their bytes are cut, in the middle of a character too', () => {
  const text = fc.array(fc.string({ unit: 'grapheme' }).map((line) => line.replace(/[\r\n]/g, ' ')));
  fc.assert(
    fc.property(text, fc.constantFrom('\n', '\r\n'), fc.array(fc.nat()), (events, newline, places) => {
      const bytes = Buffer.from(
        events.map((event) => `data: ${event}${newline}: é${newline}${newline}`).join(''),
      );
      expect(read(cut(bytes, places))).toEqual([...events, null]);
    }),
  );
});
