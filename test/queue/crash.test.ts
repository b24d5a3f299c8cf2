import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { CrashPoint } from '../../src/observe/index.ts';
import { until } from '../support/wait.ts';
import { openPool, outputOf, tasksOf } from './pool.ts';

const doomed = fileURLToPath(new URL('./doomed-worker.ts', import.meta.url));

const points: CrashPoint[] = [
  'claim:before',
  'claim:after',
  'payload.store:before',
  'payload.store:after',
  'publish:after',
  'results.add:after',
  'complete:before',
  'deliver:before',
  'deliver:after',
  'result.complete:before',
  'retry.delay:before',
  'retry.delay:after',
  'handoff:before',
  'handoff:after',
];

describe('a worker that is killed', () => {
  it.concurrent.each(points)('at %s loses nothing and leaves nothing twice', async (point) => {
    await using pool = await openPool({ reconcileMs: 1_000 });
    await pool.add(tasksOf(3));
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', doomed, pool.options.redisUrl, pool.options.prefix!, point],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    expect(signal).toBe('SIGKILL');

    await pool.feeder();
    await pool.reconciler();
    await pool.worker(async (attempt) => outputOf(attempt, attempt.attempt));
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    const groups = await pool.closedGroups();
    expect(groups).toHaveLength(3);
    for (const { results, missing, group_size } of groups) {
      expect(results).toHaveLength(group_size);
      expect(missing).toEqual([]);
      for (const { summary, payload } of results) {
        // Reward and payload name their attempt: they have to be of the same one.
        expect(summary.reward).toBe(summary.attempt);
        expect(await pool.redis.get(payload!)).toBe(`payload of ${payload!.split(':').at(-1)!}`);
      }
    }
    expect(await pool.queue.runStatus('r')).toMatchObject({
      episodes: { expected: 6, delivered: 6, running: 0, published: 0, queued: 0 },
    });
  });
});
