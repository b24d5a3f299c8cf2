// What calls that wait for the policy hold in the gateway's process, and what it takes to answer them all at once.
import type { ChildProcess } from 'node:child_process';
import { anthropicRequest } from './gateway-bodies.ts';
import { heard, type Target } from './gateway-load.ts';

/** Bytes of the gateway's process after its garbage was collected. */
export interface Held {
  readonly rss: number;
  /** The heap that is in use, and what stands outside of it: buffers. */
  readonly live: number;
}

export interface MemoryFigures {
  /** Bytes a waiting call. */
  readonly perCall: Held;
  readonly waitingRss: number;
  readonly peakRss: number;
}

/** What a process of the bench answers when it is asked for its memory; it runs with --expose-gc. */
export function tellMemory(): void {
  for (let times = 0; times < 3; times++) (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  process.send?.({ rss, live: heapUsed + external });
}

async function held(gateway: ChildProcess): Promise<Held> {
  gateway.send({ memory: true });
  return heard<Held>(gateway);
}

/**
 * Asks `count` calls of 60 KB, each with a text of its own, that the policy keeps waiting, and then has all of them answered
 * at once.
 */
export async function memoryOfWaiting(
  count: number,
  gateway: ChildProcess,
  policy: ChildProcess,
  target: Target,
): Promise<MemoryFigures> {
  const before = await held(gateway);
  policy.send({ hold: count });
  const all = Promise.all(
    Array.from({ length: count }, async (_item, number) => {
      // As of an episode of its own: nothing is shared with others.
      const body = Buffer.from(
        anthropicRequest('large', number).toString().replaceAll('agent', `a${number}`),
      );
      const reply = await target.pool.request({
        method: 'POST',
        path: target.path,
        headers: target.headers,
        body,
      });
      if (reply.statusCode !== 200)
        throw new Error(`answered ${reply.statusCode}: ${await reply.body.text()}`);
      return reply.body.arrayBuffer();
    }),
  );
  await heard(policy);
  const waiting = await held(gateway);
  gateway.send({ watch: true });
  policy.send({ release: true });
  await all;
  gateway.send({ watch: false });
  const { peak } = await heard<{ peak: number }>(gateway);
  return {
    perCall: {
      rss: (waiting.rss - before.rss) / count,
      live: (waiting.live - before.live) / count,
    },
    waitingRss: waiting.rss,
    peakRss: peak,
  };
}

let watching: NodeJS.Timeout | undefined;
let peak = 0;

/** Looks at the process's RSS until told to stop, then tells the highest. */
export function watchMemory(on: boolean): void {
  const look = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()));
  if (on) {
    peak = 0;
    watching = setInterval(look, 5);
  } else {
    clearInterval(watching);
    look();
    process.send?.({ peak });
  }
}
