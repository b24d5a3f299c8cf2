import { expect, it } from 'vitest';
import { createControl, startControlListener } from '../../../src/queue/control/index.ts';
import { setFlag } from '../../../src/queue/lua/set-flag.ts';
import type { AbortCause, EpisodeAttempt, EpisodeOutput } from '../../../src/queue/index.ts';
import { until } from '../../support/wait.ts';
import { openPool, outputOf, tasksOf } from '../pool.ts';

/** An attempt that only ends from outside, except those of `quick`. */
function patient(started: Set<string>, quick: (attempt: EpisodeAttempt) => boolean = () => false) {
  return async (attempt: EpisodeAttempt): Promise<EpisodeOutput> => {
    started.add(attempt.job.episode_id);
    if (quick(attempt)) return outputOf(attempt);
    return new Promise((_resolve, reject) => {
      const stop = (): void => reject(attempt.signal.reason as AbortCause);
      if (attempt.signal.aborted) stop();
      attempt.signal.addEventListener('abort', stop);
    });
  };
}

it('a cancelled run ends: running and queued episodes get a null result, once each', async () => {
  await using pool = await openPool();
  await pool.feeder();
  await pool.reconciler();
  const started = new Set<string>();
  const worker = await pool.worker(patient(started), { concurrency: 2 });
  await using listener = await startControlListener(pool.options);
  listener.attach(worker);
  await pool.add(tasksOf(3));
  await until(() => started.size === 2, 'two episodes run');
  expect(await createControl(pool.queue).cancelRun('r')).toBe(true);
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
  const status = await pool.queue.runStatus('r');
  expect(status).toMatchObject({
    cancelled: true,
    by_status: { cancelled: 6 },
    scored: 0,
    episodes: { running: 0 },
  });
  expect(started.size).toBe(2);
});

it('a cancelled episode leaves the others of its group alone', async () => {
  await using pool = await openPool();
  await pool.feeder();
  const started = new Set<string>();
  const worker = await pool.worker(patient(started, (attempt) => attempt.job.sample_index === 1));
  await using listener = await startControlListener(pool.options);
  listener.attach(worker);
  await pool.add(tasksOf(1));
  await until(() => worker.live().length === 1 && started.size === 2, 'one episode is left');
  expect(await createControl(pool.queue).cancelEpisode(worker.live()[0]!.episode_id)).toBe(true);
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
  const [group] = await pool.closedGroups();
  expect(group!.results.map(({ summary }) => [summary.status, summary.reward])).toEqual([
    ['cancelled', null],
    ['completed', 1],
  ]);
});

it('a cancel whose message was lost is carried out all the same', async () => {
  await using pool = await openPool();
  await pool.feeder();
  const started = new Set<string>();
  const worker = await pool.worker(patient(started));
  await using listener = await startControlListener({ ...pool.options, pollMs: 50 });
  listener.attach(worker);
  await pool.add(tasksOf(1));
  await until(() => started.size === 2, 'both episodes run');
  await setFlag(pool.redis, pool.queue.names.run('r'), 'ended', 'cancelled');
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
});
