import { describe, expect, it } from 'vitest';
import { queueNames } from '../../src/queue/index.ts';
import { until } from '../support/wait.ts';
import { infraFailureOf, lane, openPool, outputOf, plainSettings, tasksOf } from './pool.ts';

describe('a run through workers and a feeder', () => {
  it('ends every episode in its group, with the tokens and the reward of one attempt', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.worker(async (attempt) => outputOf(attempt, attempt.job.sample_index / 2));
    await pool.add(tasksOf(5), { samples: 3 });

    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    const groups = await until(async () => {
      const closed = await pool.closedGroups();
      return closed.length === 5 ? closed : null;
    }, 'five groups');

    expect(new Set(groups.map((group) => group.task_key)).size).toBe(5);
    for (const group of groups) {
      expect(group).toMatchObject({ group_size: 3, delivered: 3, scored: 3, missing: [], superseded: [] });
      expect(group.results.map(({ summary }) => summary.reward)).toEqual([0, 0.5, 1]);
      for (const { summary, payload } of group.results) {
        const nonce = payload!.split(':').at(-1)!;
        expect(payload).toBe(queueNames(pool.options.prefix).payload(summary.episode_id, nonce));
        expect(await pool.redis.get(payload!)).toBe(`payload of ${nonce}`);
        expect(await pool.redis.ttl(payload!)).toBe(-1);
      }
    }
    expect(await pool.queue.runStatus('r')).toMatchObject({
      groups: { expected: 5, closed: 5 },
      episodes: { expected: 15, queued: 0, running: 0, published: 0, delivered: 15, missing: 0 },
      by_status: { completed: 15, failed: 0 },
      scored: 15,
      reward_mean: 0.5,
      sampled_tokens: 150,
    });
  });

  it('shares the work between two workers', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const ran: string[] = [];
    let both: () => void;
    const together = new Promise<void>((resolve) => (both = resolve));
    const process =
      (name: string): Parameters<typeof pool.worker>[0] =>
      async (attempt) => {
        ran.push(name);
        if (new Set(ran).size === 2) both();
        await together;
        return outputOf(attempt);
      };
    await pool.worker(process('a'), { concurrency: 1 });
    await pool.worker(process('b'), { concurrency: 1 });
    await pool.add(tasksOf(4));
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    expect(ran).toHaveLength(8);
    expect(new Set(ran)).toEqual(new Set(['a', 'b']));
    expect(await pool.queue.listWorkers()).toHaveLength(2);
  });

  it('tries an infra failure again and keeps the result of the attempt that worked', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.worker(async (attempt) => (attempt.attempt < 3 ? infraFailureOf(attempt) : outputOf(attempt)));
    await pool.add(tasksOf(1), { samples: 1 });
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    const [group] = await pool.closedGroups();
    expect(group!.results[0]!.summary).toMatchObject({ attempt: 3, status: 'completed', reward: 1 });
    expect(await pool.queue.runStatus('r')).toMatchObject({ retries: 2, episodes: { running: 0 } });
  });

  it('publishes null at the cap, never zero', async () => {
    await using pool = await openPool();
    await pool.feeder();
    let starts = 0;
    await pool.worker(async (attempt) => {
      starts += 1;
      if (attempt.job.sample_index === 0) throw new Error('the host burns');
      return outputOf(attempt);
    });
    await pool.add(tasksOf(1), { samples: 2 });
    await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
    const [group] = await pool.closedGroups();
    expect(starts).toBe(5);
    expect(group).toMatchObject({ delivered: 2, scored: 1, missing: [] });
    expect(group!.results[0]!.summary).toMatchObject({
      attempt: 4,
      status: 'failed',
      stop_reason: 'infra',
      reward: null,
      failure: { class: 'infra', message: 'the host burns' },
    });
    expect(group!.results[0]!.payload).toBeNull();
  });

  it('runs what is urgent first', async () => {
    await using pool = await openPool();
    await pool.queue.openRun({ run_id: 'r', settings: { ...plainSettings, samples: 1 } });
    for (const [batch_id, priority] of [
      ['low', -5],
      ['default', 0],
      ['high', 7],
    ] as const) {
      await pool.queue.addBatch({
        run_id: 'r',
        batch_id,
        priority,
        tasks: tasksOf(2),
        laneOf: () => lane,
      });
    }
    const order: string[] = [];
    await pool.worker(
      async (attempt) => {
        order.push(attempt.job.batch_id);
        return outputOf(attempt);
      },
      { concurrency: 1 },
    );
    await until(() => order.length === 6, 'all ran');
    expect(order).toEqual(['high', 'high', 'default', 'default', 'low', 'low']);
  });
});
