import { expect } from 'vitest';
import type { Delivered } from '../../src/queue/index.ts';
import { decodeTrace } from '../../src/trajectory/index.ts';
import { until } from '../support/wait.ts';
import { lane, type TestPool } from '../queue/pool.ts';
import { rewardIn, rewardOf } from './reward-of.ts';

/** Waits until every episode of run `r` is delivered, and every job of it at rest. */
export async function finished(pool: TestPool, timeoutMs = 60_000): Promise<void> {
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done', timeoutMs);
  const base = pool.options.prefix!;
  await until(
    async () => {
      const left = await Promise.all([
        pool.redis.llen(`${base}:episodes-${lane}:active`),
        pool.redis.llen(`${base}:episodes-${lane}:wait`),
        pool.redis.zcard(`${base}:episodes-${lane}:prioritized`),
        pool.redis.zcard(`${base}:episodes-${lane}:delayed`),
        pool.redis.llen(`${base}:results:active`),
        pool.redis.llen(`${base}:results:wait`),
      ]);
      return left.every((count) => count === 0);
    },
    'no job is left',
    timeoutMs,
  );
}

/**
 * Holds a finished run to the invariants: each episode exactly one entry in its group and in `deliveries`, each group
 * closed once, payload and reward of the same attempt, no payload without owner and TTL, nothing in BullMQ's `failed`.
 * Gives the results.
 */
export async function expectExactlyOnce(
  pool: TestPool,
  expected: { groups: number; samples: number },
): Promise<readonly Delivered[]> {
  const { redis, queue } = pool;
  const prefix = pool.options.prefix!;
  const episodes = expected.groups * expected.samples;
  const groups = await pool.closedGroups();
  expect(new Set(groups.map(({ group_id }) => group_id)).size).toBe(expected.groups);
  expect(groups).toHaveLength(expected.groups);
  for (const group of groups) {
    expect(group).toMatchObject({ group_size: expected.samples, missing: [], delivered: expected.samples });
    const indexes = group.results.map(({ summary }) => summary.sample_index);
    expect(indexes).toEqual([...Array(expected.samples).keys()]);
  }
  const results = groups.flatMap((group) => group.results);
  expect(new Set(results.map(({ summary }) => summary.episode_id)).size).toBe(episodes);

  const told = (await redis.xrange(queue.names.deliveries('r'), '-', '+')).map(
    ([, fields]) => (JSON.parse(fields[1]!) as Delivered).summary.episode_id,
  );
  expect(told.sort()).toEqual(results.map(({ summary }) => summary.episode_id).sort());

  for (const { summary, payload } of results) {
    const nonce = payload!.split(':').at(-1)!;
    expect(summary).toMatchObject({ status: 'completed', failure: null });
    const bytes = await redis.getBuffer(payload!);
    if (summary.sandbox === null) {
      expect(summary.reward).toBe(rewardOf(nonce));
      expect(bytes?.toString()).toBe(`payload of ${nonce}`);
    } else {
      expect(summary.reward).toBe(rewardIn(summary.sandbox.id));
      if (summary.sandbox.provider === 'local') expect(summary.sandbox.id.endsWith(nonce)).toBe(true);
      const [call] = decodeTrace(bytes!).calls;
      expect(call?.new_messages[0]?.content).toBe(`I act in ${summary.sandbox.id}`);
    }
  }
  const owned = new Set(results.map(({ payload }) => payload));
  for (const key of await redis.keys(`${prefix}:payload:*`)) {
    const ttl = await redis.pttl(key);
    if (owned.has(key)) expect(ttl, key).toBe(-1);
    else expect(ttl, key).not.toBe(-1);
  }
  for (const name of [`episodes-${lane}`, 'results']) {
    expect(await redis.zcard(`${prefix}:${name}:failed`), name).toBe(0);
  }
  expect(await queue.runStatus('r')).toMatchObject({
    groups: { expected: expected.groups, closed: expected.groups },
    episodes: { expected: episodes, delivered: episodes, running: 0, published: 0, queued: 0, missing: 0 },
    by_status: { completed: episodes },
    scored: episodes,
  });
  return results;
}
