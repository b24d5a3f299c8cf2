import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  queueNames,
  type ClosedGroup,
  type EpisodeAttempt,
  type EpisodeOutput,
  type QueueNames,
} from '../../../src/queue/index.ts';
import {
  createConsumer,
  type Consumer,
  type FollowedResult,
  type ReadGroup,
} from '../../../src/queue/consumer/index.ts';
import { until } from '../../support/wait.ts';
import { lane, openPool, outputOf, summaryOf, tasksOf, type TestPool } from '../pool.ts';

let pool: TestPool;
let names: QueueNames;
let consumer: Consumer;
beforeEach(async () => {
  pool = await openPool();
  names = queueNames(pool.options.prefix);
  consumer = await createConsumer(pool.options);
});
afterEach(async () => {
  await consumer.close();
  await pool[Symbol.asyncDispose]();
});

const done = async (): Promise<boolean> => (await pool.queue.runStatus('r'))?.done ?? false;

/** A finished run of so many tasks, two samples each. */
async function finishedRun(
  tasks: number,
  process: (attempt: EpisodeAttempt) => Promise<EpisodeOutput> = async (attempt) => outputOf(attempt),
): Promise<void> {
  await pool.feeder();
  await pool.worker(process);
  await pool.add(tasksOf(tasks));
  await until(done, 'the run is done');
}

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of from) found.push(item);
  return found;
}

async function listedIds(): Promise<string[]> {
  return (await all(consumer.listResults('r'))).map(({ summary }) => summary.episode_id).sort();
}

const entries = (groups: readonly ReadGroup[]): string[] => groups.map(({ entry_id }) => entry_id);
const payloadsOf = (groups: readonly { group: ClosedGroup }[]): string[] =>
  groups.flatMap(({ group }) => group.results.map((result) => result.payload!));

describe('listing', () => {
  it('gives every delivered result once, those of open groups too, while others still run', async () => {
    await pool.feeder();
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    await pool.worker(
      async (attempt) => {
        if (attempt.job.task_key === 'task-19' && attempt.job.sample_index === 1) await released;
        return outputOf(attempt);
      },
      { concurrency: 4 },
    );
    await pool.add(tasksOf(20));
    await until(async () => (await pool.queue.runStatus('r'))?.episodes.delivered === 39, '39 are delivered');
    expect(new Set(await listedIds()).size).toBe(39);
    expect(await listedIds()).toHaveLength(39);
    release();
    await until(done, 'the run is done');
    expect(await listedIds()).toHaveLength(40);
  });

  it('gives the newest generation of what was tried again', async () => {
    let bad = true;
    await finishedRun(2, async (attempt) => {
      if (!bad || attempt.job.task_key !== 'task-0' || attempt.job.sample_index !== 0)
        return outputOf(attempt);
      return {
        summary: { ...summaryOf(attempt, null), status: 'failed', stop_reason: 'task_error' },
        payload: null,
      };
    });
    bad = false;
    await pool.queue.addBatch({
      run_id: 'r',
      batch_id: '0',
      tasks: tasksOf(2),
      laneOf: () => lane,
      retryFailed: true,
    });
    await until(done, 'the run is done again');
    const results = await all(consumer.listResults('r'));
    expect(results.map(({ summary }) => summary.status)).toEqual(Array(4).fill('completed'));
    expect(new Set(results.map(({ summary }) => `${summary.task_key} ${summary.sample_index}`)).size).toBe(4);
  });

  it('of a run that nobody knows is empty', async () => {
    expect(await all(consumer.listResults('nobody'))).toEqual([]);
  });
});

describe('following', () => {
  it('gives each result as it is delivered, and ends when the run has', async () => {
    await pool.add(tasksOf(3));
    const following = all(consumer.followResults({ run_id: 'r', endWhen: done }));
    await pool.feeder();
    await pool.worker(async (attempt) => outputOf(attempt));
    const results = await following;
    expect(results.map(({ summary }) => summary.episode_id).sort()).toEqual(await listedIds());
    expect(results).toHaveLength(6);
  });

  it('goes on after a cursor', async () => {
    await finishedRun(4);
    const first: FollowedResult[] = [];
    for await (const result of consumer.followResults({ run_id: 'r', batch: 2 })) {
      if (first.push(result) === 3) break;
    }
    const rest = await all(
      consumer.followResults({ run_id: 'r', from: first[2]!.cursor, endWhen: done, batch: 2 }),
    );
    expect(rest).toHaveLength(5);
    expect(new Set([...first, ...rest].map(({ summary }) => summary.episode_id)).size).toBe(8);
  });

  it('from the beginning misses nothing when the stream has lost its head', async () => {
    await finishedRun(3);
    await pool.redis.xtrim(names.deliveries('r'), 'MAXLEN', 2);
    const results = await all(consumer.followResults({ run_id: 'r', endWhen: done }));
    expect(results.map(({ summary }) => summary.episode_id).sort()).toEqual(await listedIds());
    expect(results).toHaveLength(6);
  });

  it('from a cursor that the stream has dropped says so', async () => {
    await finishedRun(3);
    const [oldest] = await pool.redis.xrange(names.deliveries('r'), '-', '+', 'COUNT', 1);
    await pool.redis.xtrim(names.deliveries('r'), 'MAXLEN', 2);
    await expect(all(consumer.followResults({ run_id: 'r', from: oldest![0] }))).rejects.toMatchObject({
      code: 'deliveries_lost',
    });
  });

  it('ends when its signal aborts, in the middle of waiting', async () => {
    await finishedRun(1);
    const abort = new AbortController();
    const found: FollowedResult[] = [];
    const following = (async () => {
      for await (const result of consumer.followResults({ run_id: 'r', signal: abort.signal }))
        found.push(result);
    })();
    await until(() => found.length === 2, 'both results were followed');
    abort.abort();
    await following;
  });
});

describe('a payload', () => {
  it('is fetched by the name its result carries', async () => {
    await finishedRun(1);
    for (const { payload } of await all(consumer.listResults('r'))) {
      expect((await consumer.fetchPayload(payload!))?.toString()).toBe(
        `payload of ${payload!.split(':').at(-1)}`,
      );
    }
  });

  it('is no other key of Redis', async () => {
    await expect(consumer.fetchPayload(names.run('r'))).rejects.toThrow('not the name of a payload');
  });
});

describe('groups', () => {
  const read = (more: object = {}): Promise<ReadGroup[]> =>
    consumer.groups({ run_id: 'r', reader: 'trainer', timeoutMs: 30_000, ...more });

  it('are waited for, and given once to a reader', async () => {
    await pool.add(tasksOf(4));
    const waiting = read({ minGroups: 3 });
    await pool.feeder();
    await pool.worker(async (attempt) => outputOf(attempt));
    const first = await waiting;
    expect(first).toHaveLength(3);
    const second = await read({ minGroups: 1, maxGroups: 10 });
    expect(new Set([...first, ...second].map(({ group }) => group.task_key)).size).toBe(4);
    expect(await read({ timeoutMs: 50 })).toEqual([]);
  });

  it('that are fewer than wanted are given at the time-out', async () => {
    await finishedRun(2);
    expect(await read({ minGroups: 5, timeoutMs: 100 })).toHaveLength(2);
  });

  it('of an unknown run are refused', async () => {
    await expect(read({ run_id: 'nobody' })).rejects.toMatchObject({ code: 'run_unknown' });
    await expect(read({ reader: 'a b' })).rejects.toThrow('reader');
  });

  it('lose their payloads when every registered reader has acknowledged them, and no sooner', async () => {
    await finishedRun(2);
    const mine = await read({ minGroups: 2 });
    const others = await consumer.groups({ run_id: 'r', reader: 'evaluator', minGroups: 1 });
    expect(await consumer.readers('r')).toEqual(['evaluator', 'trainer']);
    expect(await consumer.ack('r', 'trainer', entries(mine))).toEqual({ acknowledged: 2, freed: 0 });
    expect(await consumer.ack('r', 'evaluator', entries(others))).toEqual({ acknowledged: 1, freed: 2 });
    expect(await consumer.fetchPayload(payloadsOf(others)[0]!)).toBeNull();
    const left = payloadsOf(mine).filter((payload) => !payloadsOf(others).includes(payload));
    expect(await pool.redis.exists(...left)).toBe(2);
    // The same again changes nothing; results stay listed without their payloads.
    expect(await consumer.ack('r', 'evaluator', entries(others))).toEqual({ acknowledged: 0, freed: 0 });
    expect(await listedIds()).toHaveLength(4);
    expect(await consumer.removeReader('r', 'evaluator')).toBe(true);
    expect(await consumer.readers('r')).toEqual(['trainer']);
  });

  it('that a reader had in hand when it died are given to it again after its restart', async () => {
    await finishedRun(3);
    const before = await read({ minGroups: 2 });
    await consumer.ack('r', 'trainer', entries(before.slice(0, 1)));
    await using restarted = await createConsumer(pool.options);
    const options = { run_id: 'r', reader: 'trainer', timeoutMs: 1_000 };
    const again = await restarted.groups(options);
    expect(entries(again)).toEqual(entries(before.slice(1)));
    const rest = await restarted.groups({ ...options, maxGroups: 5 });
    expect(rest).toHaveLength(1);
    expect([...entries(before), ...entries(again)]).not.toContain(rest[0]!.entry_id);
  });

  it('that a dead process had in hand go to another one after a while', async () => {
    await finishedRun(3);
    const before = await read({ minGroups: 3, consumer: 'dead' });
    await using other = await createConsumer(pool.options);
    const options = { run_id: 'r', reader: 'trainer', consumer: 'alive', minGroups: 3 };
    expect(await other.groups({ ...options, timeoutMs: 50 })).toEqual([]);
    const again = await other.groups({ ...options, redeliverAfterMs: 1 });
    expect(entries(again)).toEqual(entries(before));
  });

  it('arrive although the connection was cut while waiting for them', async () => {
    await pool.add(tasksOf(1));
    const waiting = read();
    await until(async () => {
      const clients = (await pool.redis.client('LIST')) as string;
      const client = clients
        .split('\n')
        .find((line) => line.includes('rollpool-consumer-waits') && line.includes('cmd=xreadgroup'));
      const id = client === undefined ? undefined : /\bid=(\d+)/.exec(client)?.[1];
      return id !== undefined && (await pool.redis.client('KILL', 'ID', Number(id))) === 1;
    }, 'the waiting connection is cut');
    await pool.feeder();
    await pool.worker(async (attempt) => outputOf(attempt));
    expect(await waiting).toHaveLength(1);
  });

  it('stop being waited for when the signal aborts, and none is lost by that', async () => {
    await pool.add(tasksOf(1));
    const abort = new AbortController();
    const waiting = read({ signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await pool.feeder();
    await pool.worker(async (attempt) => outputOf(attempt));
    expect(await read()).toHaveLength(1);
  });

  it('of an older generation free only what the newer one did not take over', async () => {
    let bad = true;
    await finishedRun(1, async (attempt) => ({
      ...outputOf(attempt),
      ...(bad && attempt.job.sample_index === 0
        ? {
            summary: {
              ...summaryOf(attempt, null),
              status: 'failed' as const,
              stop_reason: 'task_error' as const,
            },
          }
        : {}),
    }));
    const old = await read();
    bad = false;
    await pool.queue.addBatch({
      run_id: 'r',
      batch_id: '0',
      tasks: tasksOf(1),
      laneOf: () => lane,
      retryFailed: true,
    });
    await until(done, 'the run is done again');
    expect(await consumer.ack('r', 'trainer', entries(old))).toEqual({ acknowledged: 1, freed: 1 });
    const [fresh] = await read();
    expect(fresh!.group).toMatchObject({ generation: 1, delivered: 2, scored: 2 });
    expect(await pool.redis.exists(...payloadsOf([fresh!]))).toBe(2);
    expect(await consumer.ack('r', 'trainer', [fresh!.entry_id])).toEqual({ acknowledged: 1, freed: 2 });
  });
});

it('without a Redis fails within seconds', async () => {
  await expect(createConsumer({ redisUrl: 'redis://127.0.0.1:1' })).rejects.toMatchObject({
    code: 'redis_unreachable',
  });
});
