import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { queueNames, type EpisodeOutput } from '../../src/queue/index.ts';
import { JobQueues } from '../../src/queue/job-queues.ts';
import { Publisher } from '../../src/queue/publisher.ts';
import { withinPublishDeadline } from '../../src/queue/worker/publish-deadline.ts';
import { openLine } from '../support/cut-line.ts';
import { startOwnRedis } from '../support/own-redis.ts';
import { testRedisUrl } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import { openPool, outputOf, tasksOf } from './pool.ts';

async function done(pool: Awaited<ReturnType<typeof openPool>>): Promise<void> {
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
}

describe('a result that Redis does not take in time', () => {
  it('is an infra failure that names the phase', async () => {
    await expect(withinPublishDeadline(new Promise(() => undefined), 0.01)).rejects.toMatchObject({
      failure: { class: 'infra', phase: 'publish', code: 'publish_timeout', retryable: true },
    });
    expect(await withinPublishDeadline(Promise.resolve('stored'), 60)).toBe('stored');
  });

  it('stands once when Redis takes it after all, and the attempt is not run again', async () => {
    await using server = await startOwnRedis();
    await using pool = await openPool({ lockMs: 20_000 }, server.url);
    await pool.feeder();
    const published: string[] = [];
    const starts: string[] = [];
    await pool.worker(
      async (attempt) => {
        starts.push(attempt.nonce);
        // Redis reads and answers nobody, for longer than a result may take.
        if (starts.length === 1) await pool.redis.client('PAUSE', 2_500);
        return outputOf(attempt, attempt.attempt);
      },
      { concurrency: 1, publishSeconds: 0.5, onPublished: ({ episode_id }) => published.push(episode_id) },
    );
    await pool.add(tasksOf(1), { samples: 2 });
    await done(pool);
    const [group] = await pool.closedGroups();
    expect(group!.results.map(({ summary }) => summary.attempt)).toEqual([1, 1]);
    expect(starts).toHaveLength(2);
    expect(published).toHaveLength(2);
    for (const { payload } of group!.results) expect(await pool.redis.pttl(payload!)).toBe(-1);
    expect(await pool.redis.keys(`${pool.options.prefix!}:payload:*`)).toHaveLength(2);
  });

  it('comes too late when its lock ran out meanwhile: another attempt gives the result', async () => {
    await using line = await openLine(testRedisUrl().slice('unix://'.length));
    await using pool = await openPool();
    await pool.feeder();
    let cut: string | undefined;
    const published: string[] = [];
    await pool.worker(
      async (attempt) => {
        cut = attempt.nonce;
        line.cut();
        return outputOf(attempt, attempt.attempt);
      },
      {
        redisUrl: `unix://${line.path}`,
        concurrency: 1,
        publishSeconds: 0.3,
        onPublished: ({ worker }) => published.push(worker),
      },
    );
    await pool.add(tasksOf(1), { samples: 1 });
    await until(() => cut, 'the line is cut');
    await pool.worker(async (attempt) => outputOf(attempt, attempt.attempt));
    await done(pool);
    line.mend();
    const names = queueNames(pool.options.prefix);
    const [group] = await pool.closedGroups();
    const { summary, payload } = group!.results[0]!;
    expect(summary).toMatchObject({ attempt: 2, status: 'completed', reward: 2 });
    await until(
      async () => (await pool.redis.exists(names.payload(summary.episode_id, cut!))) === 0,
      'the late payload is gone',
    );
    expect(await pool.redis.pttl(payload!)).toBe(-1);
    expect(await pool.redis.xlen(names.deliveries('r'))).toBe(1);
    expect(published).toEqual([]);
  });

  it('keeps its payload when a broken connection makes both commands arrive twice', async () => {
    await using pool = await openPool();
    await pool.add(tasksOf(1), { samples: 1 });
    let output: EpisodeOutput & { nonce: string };
    await pool.worker(async (attempt) => {
      output = { ...outputOf(attempt), nonce: attempt.nonce };
      return output;
    });
    const { names } = pool.queue;
    await until(async () => (await pool.queue.runStatus('r'))?.episodes.published, 'it is published');
    const jobs = new JobQueues(pool.redis, names, silentLogger);
    const again = new Publisher(pool.redis, names, jobs, 60_000);
    expect(await again.publish({ ...output!, guarded: true })).toEqual(['published']);
    expect(await pool.redis.pttl(names.payload(output!.summary.episode_id, output!.nonce))).toBe(-1);
    await jobs.close();
  });
});
