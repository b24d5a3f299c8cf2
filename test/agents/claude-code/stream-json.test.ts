import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createStreamJsonParser, type JsonLinesStats } from '../../../src/agents/claude-code/stream-json.ts';

function parse(
  chunks: readonly Uint8Array[],
  maxLineBytes?: number,
): { events: unknown[]; stats: JsonLinesStats } {
  const events: unknown[] = [];
  const parser = createStreamJsonParser((event) => events.push(event), maxLineBytes);
  for (const chunk of chunks) {
    parser.push(chunk);
    // A stream may use the chunk's memory again.
    chunk.fill(0x20);
  }
  parser.end();
  return { events, stats: parser.stats() };
}

/** Cuts bytes at the given places, wherever they fall. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, index) => Buffer.from(bytes.subarray(at[index], end)));
}

const event = fc.dictionary(
  fc.string(),
  fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.constant('é😀\u2028')),
);

describe('the stream-json parser', () => {
  it('gives the same events however the bytes are cut, inside characters too', () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        fc.boolean(),
        (events, places, last) => {
          const text = events.map((one) => JSON.stringify(one)).join('\n') + (last ? '\n' : '');
          const parsed = parse(cut(Buffer.from(text), places));
          expect(parsed.events).toEqual(events.map((one): unknown => JSON.parse(JSON.stringify(one))));
          expect(parsed.stats).toMatchObject({
            events: events.length,
            garbage: 0,
            bytes: Buffer.byteLength(text),
          });
        },
      ),
    );
  });

  it('reads a recorded run byte by byte', () => {
    const bytes = readFileSync(new URL('./recorded/agent-done.jsonl', import.meta.url));
    const { events, stats } = parse([...bytes].map((byte) => Buffer.from([byte])));
    expect(stats).toMatchObject({ garbage: 0, oversized: 0 });
    expect(events.at(-1)).toMatchObject({ type: 'result', is_error: false, result: 'done ✓' });
  });

  it('counts and skips what is no JSON object', () => {
    const lines = [
      'warning: x',
      '{"type":"a"}',
      '{"half":',
      '[1]',
      'null',
      '3',
      '',
      '  ',
      '{"type":"b"}\r',
      '\u0000',
    ];
    const { events, stats } = parse([Buffer.from(lines.join('\n'))]);
    expect(events).toEqual([{ type: 'a' }, { type: 'b' }]);
    expect(stats).toMatchObject({ events: 2, garbage: 6 });
  });

  it('drops a line longer than its bound and goes on with the next', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 10 }), (places) => {
        const text = `{"a":1}\n{"long":"${'x'.repeat(500)}"}\n{"b":2}\n`;
        const { events, stats } = parse(cut(Buffer.from(text), places), 100);
        expect(events).toEqual([{ a: 1 }, { b: 2 }]);
        expect(stats).toMatchObject({ events: 2, oversized: 1, garbage: 0 });
      }),
    );
  });
});
