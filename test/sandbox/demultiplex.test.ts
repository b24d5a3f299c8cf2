import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { demultiplex } from '../../src/sandbox/docker/demultiplex.ts';

function frame(stream: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(8);
  header[0] = stream;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

test('splits the streams whole, wherever the chunks are cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom(1, 2), fc.uint8Array({ maxLength: 40 })), { maxLength: 20 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
      async (frames, sizes) => {
        const wire = Buffer.concat(frames.map(([stream, payload]) => frame(stream, payload)));
        const chunks: Buffer[] = [];
        for (let at = 0, turn = 0; at < wire.length; turn++) {
          const size = sizes[turn % sizes.length]!;
          chunks.push(wire.subarray(at, at + size));
          at += size;
        }
        const out: Buffer[] = [];
        const err: Buffer[] = [];
        await demultiplex(Readable.from(chunks), {
          stdout: (chunk) => void out.push(chunk),
          stderr: async (chunk) => void err.push(chunk),
        });
        const of = (wanted: number): Buffer =>
          Buffer.concat(frames.filter(([stream]) => stream === wanted).map(([, payload]) => payload));
        expect(Buffer.concat(out)).toEqual(of(1));
        expect(Buffer.concat(err)).toEqual(of(2));
      },
    ),
  );
});

test('ends with what it had when the stream breaks', async () => {
  const out: string[] = [];
  const broken = new Readable({ read: () => undefined });
  broken.push(frame(1, Buffer.from('before')));
  const done = demultiplex(broken, {
    stdout: (chunk) => void out.push(chunk.toString()),
    stderr: () => undefined,
  });
  setImmediate(() => broken.destroy(new Error('reset')));
  await done;
  expect(out).toEqual(['before']);
});
