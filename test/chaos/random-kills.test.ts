import { expect, it } from 'vitest';
import { openPool, tasksOf } from '../queue/pool.ts';
import { until } from '../support/wait.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { startProcess, type PoolProcess } from './processes.ts';
import { serve, starts } from './two-processes.ts';

const seed = 20_261_130;
const kills = 5;

/** The same numbers in [0, 1) for the same seed (mulberry32). */
function numbers(from: number): () => number {
  let state = from;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

it(
  `60 episodes give 60 results, whatever moment their workers are killed at (seed ${seed})`,
  { timeout: 120_000 },
  async () => {
    const random = numbers(seed);
    const expected = { groups: 15, samples: 4 };
    await using pool = await openPool();
    const all: PoolProcess[] = [];
    await using _all = {
      [Symbol.asyncDispose]: async () => {
        for (const child of all) await child[Symbol.asyncDispose]();
      },
    };
    const start = (): PoolProcess => {
      const child = startProcess();
      all.push(child);
      serve(child, 'r', pool, { work_ms: 300 + Math.floor(300 * random()) });
      return child;
    };
    await pool.add(tasksOf(expected.groups), { samples: expected.samples });
    const two = [start(), start()];
    for (let kill = 0; kill < kills; kill += 1) {
      const victim = kill % 2;
      // At work, and then at any moment of it.
      await until(() => two[victim]!.heard('started', 'r').length > 0, 'the victim is at work');
      const moment = Date.now() + 700 * random();
      await until(() => Date.now() >= moment, 'its moment has come');
      two[victim]!.kill('SIGKILL');
      expect(await two[victim]!.ended).toBe('SIGKILL');
      two[victim] = start();
    }
    await finished(pool);
    await expectExactlyOnce(pool, expected);
    // The kills did hit: something was started more than once.
    expect(starts(all, 'r').length).toBeGreaterThan(expected.groups * expected.samples);
  },
);
