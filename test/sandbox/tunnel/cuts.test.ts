import { createHash } from 'node:crypto';
import { PassThrough, Transform, type TransformCallback } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxProcess } from '../../../src/sandbox/sandbox.ts';
import { bytesOf, exchange, setStage, type Stage } from './stage.ts';

/** A channel that carries so many bytes out and in, and then breaks at that byte. */
function cutAfter(process: SandboxProcess, out: number, back: number): SandboxProcess {
  const limit = (bytes: number): Transform => {
    let left = bytes;
    return new Transform({
      transform(chunk: Buffer, _encoding, done: TransformCallback) {
        if (left > 0) this.push(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) setImmediate(() => void process.kill());
        done();
      },
    });
  };
  const stdin = limit(out);
  stdin.pipe(process.stdin);
  const stdout = process.stdout.pipe(limit(back)).pipe(new PassThrough());
  return { ...process, stdin, stdout };
}

describe('a tunnel whose channel is cut at any byte, again and again', () => {
  let stage: Stage;
  beforeAll(async () => {
    // Gives back what it gets, as it gets it.
    stage = await setStage((socket) => socket.pipe(socket));
  });
  afterAll(async () => stage[Symbol.asyncDispose]());

  test('brings every byte of every connection over once and in order, in both directions', async () => {
    const cuts = fc.array(
      fc.tuple(fc.integer({ min: 1, max: 400_000 }), fc.integer({ min: 1, max: 400_000 })),
      {
        minLength: 4,
        maxLength: 12,
      },
    );
    const lengths = fc.array(fc.integer({ min: 0, max: 300_000 }), { minLength: 5, maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(cuts, lengths, async (lives, sizes) => {
        const left = [...lives];
        stage.host.between = (process) => {
          const life = left.shift();
          // The first has to come up at all.
          return life === undefined ? process : cutAfter(process, 200 + life[0], 100 + life[1]);
        };
        await using tunnel = await stage.open();
        const answers = await Promise.all(
          sizes.map(async (size) => {
            const sent = bytesOf(size);
            const came = await exchange(stage.inside, sent);
            return hash(came) === hash(sent) ? 'same' : `${came.length} of ${size} bytes`;
          }),
        );
        expect(answers).toEqual(sizes.map(() => 'same'));
        expect(tunnel.stats()).toMatchObject({ restarted: 0, streams: sizes.length });
      }),
      { numRuns: 6, endOnFailure: true },
    );
  });

  test('resends what the other end did not get', async () => {
    let channels = 0;
    stage.host.between = (process) => (channels++ < 3 ? cutAfter(process, 100_000, 10_000_000) : process);
    await using tunnel = await stage.open();
    const sent = bytesOf(2_000_000);
    expect(hash(await exchange(stage.inside, sent))).toBe(hash(sent));
    expect(tunnel.stats()).toMatchObject({ reopened: 3, restarted: 0 });
    expect(tunnel.stats().resent).toBeGreaterThan(0);
  });
});

function hash(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
