import { describe, expect, it } from 'vitest';
import { AbortCause, type EpisodeAttempt, type EpisodeOutput } from '../../src/queue/index.ts';
import { JobQueues } from '../../src/queue/job-queues.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { until } from '../support/wait.ts';
import { aTask, lane, openPool, outputOf, plainSettings, tasksOf, type TestPool } from './pool.ts';

/** A processor that runs until it is aborted, and tells when it has started and torn down. */
function endless() {
  const started: EpisodeAttempt[] = [];
  const ended: string[] = [];
  return {
    started,
    ended,
    process: async (attempt: EpisodeAttempt): Promise<EpisodeOutput> => {
      started.push(attempt);
      await new Promise<void>((resolve) => {
        attempt.signal.addEventListener('abort', () => setTimeout(resolve, 30), { once: true });
      });
      ended.push((attempt.signal.reason as AbortCause).kind);
      throw attempt.signal.reason as Error;
    },
  };
}

async function done(pool: TestPool): Promise<void> {
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
}

describe('hand-off', () => {
  it('tears episodes down, puts them back without counting the attempt, and another worker runs them', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const { started, ended, process } = endless();
    const first = await pool.worker(process);
    await pool.add(tasksOf(2), { samples: 2 });
    await until(() => started.length === 4, 'four episodes run');
    await first.close({ mode: 'handoff' });
    expect(ended).toEqual(['handoff', 'handoff', 'handoff', 'handoff']);
    expect(await pool.queue.runStatus('r')).toMatchObject({ episodes: { queued: 4, running: 0 } });
    expect((await pool.queue.laneCounts()).find((counts) => counts.lane === lane)).toMatchObject({
      waiting: 4,
      active: 0,
    });
    const attempts: number[] = [];
    await pool.worker(async (attempt) => {
      attempts.push(attempt.attempt);
      return outputOf(attempt);
    });
    await done(pool);
    expect(attempts).toEqual([1, 1, 1, 1]);
  });

  it('lets episodes end first when it drains', async () => {
    await using pool = await openPool();
    let release: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    let running = 0;
    const worker = await pool.worker(async (attempt) => {
      running += 1;
      await held;
      return outputOf(attempt);
    });
    await pool.add(tasksOf(1));
    await until(() => running === 2, 'both run');
    const closed = worker.close({ mode: 'drain' });
    release!();
    await closed;
    expect(await pool.queue.runStatus('r')).toMatchObject({ episodes: { published: 2, queued: 0 } });
  });

  it('ends at once when asked a second time; its lock gives the episode to another worker, no attempt counted', async () => {
    await using pool = await openPool();
    await pool.feeder();
    let release: () => void;
    const stuck = new Promise<void>((resolve) => (release = resolve));
    let running = 0;
    const first = await pool.worker(async (attempt) => {
      running += 1;
      await stuck;
      return outputOf(attempt);
    });
    await pool.add(tasksOf(1), { samples: 1 });
    await until(() => running === 1, 'it runs');
    const closing = first.close({ mode: 'handoff', deadlineMs: 60_000 });
    await first.close();
    await closing;
    await pool.worker(async (attempt) => outputOf(attempt));
    await done(pool);
    release!();
    const [group] = await pool.closedGroups();
    expect(group!.results[0]!.summary.attempt).toBe(1);
  });
});

describe('an episode ended from outside', () => {
  it('publishes cancelled when its run is cancelled, whether it runs or waits', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const { started, process } = endless();
    const worker = await pool.worker(process, { concurrency: 1 });
    await pool.add(tasksOf(2), { samples: 2 });
    await until(() => started.length === 1, 'one runs');
    await pool.queue.cancelRun('r');
    expect(worker.abortRun('r', new AbortCause('cancelled'))).toBe(1);
    await done(pool);
    expect(started).toHaveLength(1);
    const groups = await pool.closedGroups();
    expect(groups).toHaveLength(2);
    for (const { results, missing } of groups) {
      expect(missing).toEqual([]);
      for (const { summary, payload } of results) {
        expect(summary).toMatchObject({
          status: 'cancelled',
          stop_reason: 'cancelled',
          reward: null,
          failure: null,
        });
        expect(payload).toBeNull();
      }
    }
    expect(await pool.queue.runStatus('r')).toMatchObject({ cancelled: true, by_status: { cancelled: 4 } });
  });

  it('publishes cancelled although the message was lost and the episode ran to its end', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.worker(async (attempt) => {
      await pool.queue.cancelEpisode(attempt.job.episode_id);
      return outputOf(attempt);
    });
    await pool.add(tasksOf(1), { samples: 1 });
    await done(pool);
    const [group] = await pool.closedGroups();
    expect(group!.results[0]!.summary).toMatchObject({ status: 'cancelled', attempt: 1, reward: null });
    expect(await pool.redis.keys(`${pool.options.prefix!}:payload:*`)).toEqual([]);
  });

  it('publishes expired for what its deadline has passed by', async () => {
    await using pool = await openPool();
    await pool.feeder();
    await pool.add([]);
    await pool.queue.addBatch({
      run_id: 'r',
      batch_id: 'old',
      tasks: [aTask('t')],
      laneOf: () => lane,
      deadline_at: Date.now() - 1,
    });
    await pool.worker(async () => {
      throw new Error('it must not run');
    });
    await done(pool);
    const [group] = await pool.closedGroups();
    expect(group!.results.map(({ summary }) => [summary.stop_reason, summary.attempt])).toEqual([
      ['expired', 0],
      ['expired', 0],
    ]);
  });
});

describe('a paused run', () => {
  it('waits without counting attempts, lets other runs pass, and goes on when resumed', async () => {
    await using pool = await openPool({ parkMs: 60_000 });
    await pool.feeder();
    await pool.add(tasksOf(2));
    await pool.queue.pauseRun('r');
    await pool.queue.openRun({
      run_id: 's',
      settings: { samples: 1, sampling: {}, limits: {}, manifest_hash: null },
    });
    await pool.queue.addBatch({ run_id: 's', batch_id: '0', tasks: tasksOf(2), laneOf: () => lane });
    const ran: string[] = [];
    await pool.worker(async (attempt) => {
      ran.push(`${attempt.job.run_id}${attempt.attempt}`);
      return outputOf(attempt);
    });
    await until(async () => (await pool.queue.runStatus('s'))?.done, 'the other run is done');
    expect(await pool.queue.runStatus('r')).toMatchObject({ state: 'paused', episodes: { queued: 4 } });
    expect(ran).toEqual(['s1', 's1']);
    await until(
      async () => (await pool.redis.scard(`${pool.options.prefix!}:run:r:parked`)) === 4,
      'all four are put aside',
    );
    // A job is in the set a moment before BullMQ has put it aside.
    await until(
      async () => (await pool.queue.laneCounts()).find((counts) => counts.lane === lane)!.delayed === 4,
      'all four are delayed',
    );
    await pool.queue.resumeRun('r');
    await done(pool);
    expect(ran.slice(2)).toEqual(['r1', 'r1', 'r1', 'r1']);
  });
});

describe('locks and copies', () => {
  it('aborts an episode whose lock is lost; the one that took it over gives the result', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const { started, ended, process } = endless();
    const first = await pool.worker(process, { concurrency: 1 });
    await pool.add(tasksOf(1), { samples: 1 });
    await until(() => started.length === 1, 'it runs');
    const { episode_id } = started[0]!.job;
    await pool.redis.set(`${pool.options.prefix!}:episodes-${lane}:${episode_id}:lock`, 'somebody else');
    await until(() => ended.length === 1, 'it is aborted');
    expect(ended).toEqual(['lock_lost']);
    void first.close();
    await pool.redis.del(`${pool.options.prefix!}:episodes-${lane}:${episode_id}:lock`);
    await pool.worker(async (attempt) => outputOf(attempt));
    await done(pool);
    const [group] = await pool.closedGroups();
    expect(group!.results[0]!.summary).toMatchObject({ attempt: 2, status: 'completed' });
  });

  it('aborts its own older copy of an episode and waits for its teardown before it starts the newer', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const log: string[] = [];
    let torn: () => void;
    const teardown = new Promise<void>((resolve) => (torn = resolve));
    await pool.worker(async (attempt) => {
      log.push(`start ${attempt.attempt}`);
      if (attempt.attempt === 1) {
        await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve));
        log.push((attempt.signal.reason as AbortCause).kind);
        await teardown;
        log.push('torn down');
        throw attempt.signal.reason as Error;
      }
      return outputOf(attempt);
    });
    await pool.add(tasksOf(1), { samples: 1 });
    await until(() => log.length === 1, 'it runs');
    // As after a long block of the event loop: the lock ran out and the same process takes the job again.
    const base = `${pool.options.prefix!}:episodes-${lane}:`;
    const [id] = await pool.redis.lrange(`${base}active`, 0, -1);
    await pool.redis
      .multi()
      .del(`${base}${id}:lock`)
      .lrem(`${base}active`, 1, id!)
      .zadd(`${base}prioritized`, 1, id!)
      .zadd(`${base}marker`, 0, '0')
      .exec();
    await until(() => log.length >= 2, 'the older copy is aborted');
    expect(log.slice(0, 2)).toEqual(['start 1', expect.stringMatching(/twin|lock_lost/)]);
    torn!();
    await done(pool);
    expect(log.slice(2)).toEqual(['torn down', 'start 2']);
  });

  it('keeps the lock of a long episode and runs it once', async () => {
    await using pool = await openPool();
    await pool.feeder();
    let starts = 0;
    const process = async (attempt: EpisodeAttempt): Promise<EpisodeOutput> => {
      starts += 1;
      const until_ = Date.now() + 4_000;
      await until(() => Date.now() > until_, 'more than twice the lock has passed');
      return outputOf(attempt);
    };
    await pool.worker(process);
    await pool.worker(process);
    await pool.add(tasksOf(1), { samples: 2 });
    await done(pool);
    expect(starts).toBe(2);
  });
});

describe('jobs', () => {
  it('of a newer schema go back for a newer worker', async () => {
    await using pool = await openPool();
    const jobs = new JobQueues(pool.redis, pool.queue.names, silentLogger);
    await jobs.lane(lane).add('episode', { schema: 99, anything: true }, { jobId: 'newer' });
    await pool.worker(async () => {
      throw new Error('it must not run');
    });
    await until(
      async () => (await (await jobs.lane(lane).getJob('newer'))?.isDelayed()) === true,
      'it is put aside',
    );
    await jobs.close();
  });

  it('carry no payload, and neither do return values and events', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const secret = 'x'.repeat(50_000);
    await pool.worker(async (attempt) => ({ ...outputOf(attempt), payload: Buffer.from(secret) }));
    await pool.add(tasksOf(2));
    await done(pool);
    for (const key of await pool.redis.keys(`${pool.options.prefix!}:*`)) {
      const bytes = (await pool.redis.memory('USAGE', key)) ?? 0;
      if (!key.includes(':payload:')) expect(bytes, key).toBeLessThan(40_000);
    }
  });
});

describe('workers of one run each', () => {
  it('run its episodes and no other, on one lane, and leave the others their attempts', async () => {
    await using pool = await openPool({ otherRunMs: 50 });
    await pool.feeder();
    const seen: { readonly run: string; readonly by: string; readonly attempt: number }[] = [];
    for (const run_id of ['r', 's']) {
      await pool.worker(
        async (attempt) => {
          seen.push({ run: attempt.job.run_id, by: run_id, attempt: attempt.attempt });
          return outputOf(attempt);
        },
        { onlyRun: run_id },
      );
    }
    await pool.queue.openRun({ run_id: 's', settings: plainSettings });
    await pool.queue.addBatch({ run_id: 's', batch_id: '0', tasks: tasksOf(10), laneOf: () => lane });
    await pool.add(tasksOf(10));
    await done(pool);
    await until(async () => (await pool.queue.runStatus('s'))?.done, 'the other run is done');
    expect(seen).toHaveLength(40);
    expect(seen.filter(({ run, by, attempt }) => run !== by || attempt !== 1)).toEqual([]);
  });
});
