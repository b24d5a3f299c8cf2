import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { JobQueues } from '../../src/queue/job-queues.ts';
import type { SurveyedMember } from '../../src/queue/lua/survey-group.ts';
import { gapOf } from '../../src/queue/repair.ts';
import { until } from '../support/wait.ts';
import { lane, openPool, outputOf, tasksOf, type TestPool } from './pool.ts';

const jobKeys = (pool: TestPool): Promise<string[]> =>
  pool.redis.keys(`${pool.options.prefix!}:episodes-${lane}:e${'[0-9a-f]'.repeat(24)}`);

describe('the reconciler', () => {
  it('finds nothing to do where nothing is wrong', async () => {
    await using pool = await openPool();
    await pool.add(tasksOf(3));
    expect(await pool.queue.reconcile()).toEqual({ groups: 3, requeued: 0, republished: 0, swept: 0 });
  });

  it('adds jobs that are missing or that ended without a result', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.add(tasksOf(2));
    const base = `${pool.options.prefix!}:episodes-${lane}:`;
    const ids = (await jobKeys(pool)).map((key) => key.slice(base.length));
    await pool.redis.multi().unlink(`${base}${ids[0]!}`).zrem(`${base}prioritized`, ids[0]!).exec();
    await pool.redis
      .multi()
      .zrem(`${base}prioritized`, ids[1]!)
      .zadd(`${base}failed`, Date.now(), ids[1]!)
      .hset(`${base}${ids[1]!}`, 'finishedOn', String(Date.now()), 'failedReason', 'gone')
      .exec();
    expect(await pool.queue.reconcile()).toMatchObject({ requeued: 2 });
    await pool.worker(async (attempt) => outputOf(attempt));
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    expect(await pool.closedGroups()).toHaveLength(2);
  });

  it('adds the result job of a published episode again', async () => {
    await using pool = await openPool();
    await pool.worker(async (attempt) => outputOf(attempt));
    await pool.add(tasksOf(1));
    await until(
      async () => (await pool.queue.runStatus('r'))?.episodes.published === 2,
      'both are published',
    );
    const jobs = new JobQueues(pool.redis, pool.queue.names, silentLogger);
    await until(async () => (await jobs.results.getWaitingCount()) === 2, 'both result jobs are there');
    await jobs.results.drain();
    expect(await pool.queue.reconcile('r')).toMatchObject({ republished: 2, requeued: 0 });
    await pool.feeder();
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    await jobs.close();
  });

  it('gives cancelled episodes their results without any worker, so that groups close', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.add(tasksOf(2));
    await pool.queue.cancelRun('r');
    await pool.reconciler();
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    const groups = await pool.closedGroups();
    expect(groups.flatMap(({ results }) => results.map(({ summary }) => summary.stop_reason))).toEqual(
      Array.from({ length: 4 }, () => 'cancelled'),
    );
    expect(await jobKeys(pool)).toEqual([]);
  });

  it('works alone', async () => {
    await using pool = await openPool();
    await pool.redis.set(pool.queue.names.reconcileLock, 'another', 'PX', 60_000);
    expect(await pool.queue.reconcile()).toBeNull();
    expect(await pool.redis.get(pool.queue.names.reconcileLock)).toBe('another');
  });
});

describe('a gap', () => {
  const member = (more: Partial<SurveyedMember>): SurveyedMember => ({
    episode_id: 'e',
    sample_index: 0,
    state: 'queued',
    attempts: 0,
    ended: null,
    job: 'present',
    result: 'missing',
    ...more,
  });

  it.each([
    ['a queued episode with its job', member({}), null],
    ['a queued episode without its job', member({ job: 'missing' }), 'requeue'],
    ['a queued episode whose job failed', member({ job: 'finished' }), 'requeue'],
    ['a cancelled one', member({ ended: 'cancelled' }), { sweep: 'cancelled' }],
    ['a running one that was cancelled', member({ state: 'running', ended: 'cancelled' }), null],
    ['a running one without its job', member({ state: 'running', job: 'missing' }), 'requeue'],
    ['a published one on its way', member({ state: 'published', result: 'present' }), null],
    ['a published one without its result job', member({ state: 'published' }), 'republish'],
    ['a delivered one', member({ state: 'delivered', job: 'missing' }), null],
  ])('of %s', (_what, given, expected) => {
    expect(gapOf(given, null, 1)).toEqual(expected);
  });

  it('of a queued episode past its deadline is swept', () => {
    expect(gapOf(member({}), 10, 11)).toEqual({ sweep: 'expired' });
    expect(gapOf(member({}), 10, 10)).toBeNull();
  });
});
