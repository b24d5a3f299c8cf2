import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BrokenFrameError, encodeFrame, FrameReader, type Frame } from '../../../src/sandbox/tunnel/frame.ts';
import { Session } from '../../../src/sandbox/tunnel/session.ts';

const marker = Buffer.from('0123456789abcdef0123456789abcdef');

const frames = fc.array(
  fc.record({
    type: fc.integer({ min: 0, max: 255 }),
    flag: fc.integer({ min: 0, max: 255 }),
    stream: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    number: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    payload: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  }),
  { maxLength: 20 },
);

/** The bytes in pieces, cut where the list says. */
function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 });

function readAll(pieces: readonly Buffer[]): Frame[] {
  const reader = new FrameReader(marker);
  return pieces.flatMap((piece) => reader.push(piece));
}

describe('frames', () => {
  test('are read as they were written, however the bytes are cut up and whatever came before the marker', () => {
    fc.assert(
      fc.property(frames, sizes, fc.uint8Array({ maxLength: 500 }), (sent, cuts, noise) => {
        const bytes = Buffer.concat([noise, marker, ...sent.map(encodeFrame)]);
        expect(readAll(cut(bytes, cuts))).toEqual(sent);
      }),
    );
  });

  test('with one byte changed are never taken for another frame', () => {
    fc.assert(
      fc.property(frames, fc.nat(), fc.integer({ min: 1, max: 255 }), (sent, where, change) => {
        const body = Buffer.concat(sent.map(encodeFrame));
        fc.pre(body.length > 0);
        const at = where % body.length;
        body[at] = body[at]! ^ change;
        let came: Frame[] = [];
        try {
          came = readAll([marker, body]);
        } catch (error) {
          expect(error).toBeInstanceOf(BrokenFrameError);
        }
        expect(came).toEqual(sent.slice(0, came.length));
        expect(came.length).toBeLessThan(sent.length);
      }),
    );
  });

  test('are given up after a mebibyte of noise', () => {
    const reader = new FrameReader(marker);
    const noise = Buffer.alloc(64 * 1024, 'x');
    expect(() => {
      for (let sent = 0; sent <= 2 ** 20 + noise.length; sent += noise.length) reader.push(noise);
    }).toThrow(BrokenFrameError);
  });
});

describe('a session', () => {
  test('brings every numbered frame over once and in order, wherever its channels are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 60 }),
        fc.infiniteStream(fc.nat({ max: 40 })),
        (payloads, lives) => {
          const sender = new Session();
          const receiver = new Session();
          const came: Buffer[] = [];
          const unsent = payloads.map((payload) => Buffer.from(payload));
          for (let channels = 0; came.length < payloads.length; channels++) {
            // A channel that carries so many frames and then breaks, with what is on its way.
            let life = lives.next().value + (channels > 50 ? 100 : 0);
            const reader = new FrameReader(marker);
            reader.push(marker);
            const carry = (bytes: Buffer): void => {
              if (life-- <= 0) return;
              for (const frame of reader.push(bytes)) {
                receiver.take(frame);
                came.push(frame.payload);
              }
            };
            for (const bytes of sender.resume(receiver.received)) carry(bytes);
            while (life > 0 && unsent.length > 0) carry(sender.number(17, 0, 1, unsent.shift()));
          }
          expect(came).toEqual(payloads.map((payload) => Buffer.from(payload)));
        },
      ),
    );
  });

  test('takes no frame twice and none out of order', () => {
    const session = new Session();
    const frame = { type: 17, flag: 0, stream: 1, payload: Buffer.alloc(0) };
    session.take({ ...frame, number: 1 });
    expect(() => session.take({ ...frame, number: 1 })).toThrow(BrokenFrameError);
    expect(() => session.take({ ...frame, number: 3 })).toThrow(BrokenFrameError);
    expect(() => session.acknowledge(1)).toThrow('never sent');
  });
});
