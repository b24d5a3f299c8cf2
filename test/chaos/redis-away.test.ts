import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool, tasksOf, type TestPool } from '../queue/pool.ts';
import { startOwnRedis, type OwnRedis } from '../support/own-redis.ts';
import { until } from '../support/wait.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { serve, starts, startTwo } from './two-processes.ts';

/** Longer than several renewals, shorter than the lock. */
const outageMs = 3_000;
const timings = { lockMs: 10_000, renewMs: 500, stalledMs: 600, heartbeatMs: 500 };
const expected = { groups: 6, samples: 4 };
const atOnce = 3;

interface Outage {
  readonly server: OwnRedis;
  readonly pool: TestPool;
  /** Waits until so many episodes have started that every place has been taken once more than before. */
  readonly wave: () => Promise<void>;
}

let two: ReturnType<typeof startTwo>;
beforeAll(() => {
  two = startTwo();
});
afterAll(async () => {
  await two[Symbol.asyncDispose]();
});

async function passes(ms: number): Promise<void> {
  const end = Date.now() + ms;
  await until(() => Date.now() >= end, `${ms} ms have passed`);
}

const outages: Record<string, (outage: Outage) => Promise<void>> = {
  'is killed and restarted, twice': async ({ server, wave }) => {
    for (const _time of [1, 2]) {
      await wave();
      await server.written();
      await server.kill();
      await server.start();
    }
  },
  'is killed and away for longer than a renewal': async ({ server, wave }) => {
    await wave();
    await server.written();
    await server.kill();
    await passes(outageMs);
    await server.start();
  },
  'answers nobody for longer than a renewal': async ({ server, wave }) => {
    await wave();
    server.freeze();
    await passes(outageMs);
    server.goOn();
  },
  'drops every connection, again and again': async ({ pool, wave }) => {
    for (const _time of [1, 2, 3]) {
      await wave();
      await pool.redis.call('CLIENT', 'KILL', 'TYPE', 'normal');
    }
  },
};

describe('a run whose Redis', () => {
  it.concurrent.each(Object.keys(outages))(
    '%s ends by itself, with nothing lost, nothing twice and nothing run again',
    { timeout: 120_000 },
    async (name) => {
      await using server = await startOwnRedis();
      await using pool = await openPool(timings, server.url);
      for (const child of two.both) serve(child, name, pool, { concurrency: atOnce, work_ms: 1_200 });
      await Promise.all(two.both.map((child) => child.wait('opened', name)));
      await pool.add(tasksOf(expected.groups), { samples: expected.samples });
      let waves = 0;
      const wave = async (): Promise<void> => {
        waves += 1;
        await until(
          () => starts(two.both, name).length >= waves * two.both.length * atOnce,
          `every place is taken for the ${waves}. time`,
        );
      };
      await outages[name]!({ server, pool, wave });
      await finished(pool);
      const results = await expectExactlyOnce(pool, expected);
      expect(results.every(({ summary }) => summary.attempt === 1)).toBe(true);
      expect(starts(two.both, name)).toHaveLength(expected.groups * expected.samples);
      await Promise.all(two.both.map((child) => child.close(name)));
    },
  );
});
