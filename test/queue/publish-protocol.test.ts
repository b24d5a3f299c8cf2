import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EpisodeJob, ResultSummary } from '../../src/contracts/index.ts';
import { queueNames, type ClosedGroup, type QueueNames } from '../../src/queue/index.ts';
import { claimEpisode, type Claim } from '../../src/queue/lua/claim.ts';
import { deliverResult } from '../../src/queue/lua/deliver.ts';
import { publishResult } from '../../src/queue/lua/publish.ts';
import { releaseEpisode } from '../../src/queue/lua/release.ts';
import { nullSummary } from '../../src/queue/null-summary.ts';
import { aTask, lane, openPool, type TestPool } from './pool.ts';

const failure = {
  class: 'infra',
  phase: 'boot',
  code: 'gone',
  message: 'it is gone',
  retryable: true,
} as const;

/** Drives the scripts by hand, one script call a step, as workers and feeders would. */
function driver(pool: TestPool, names: QueueNames) {
  const redis = pool.redis;
  return {
    claim: (
      job: EpisodeJob,
      nonce: string,
      more: { maxAttempts?: number; now?: number } = {},
    ): Promise<Claim> =>
      claimEpisode(redis, names, job, {
        nonce,
        worker: 'w',
        lane,
        now: more.now ?? Date.now(),
        maxAttempts: more.maxAttempts ?? 4,
      }),
    store: (job: EpisodeJob, nonce: string) =>
      redis.set(names.payload(job.episode_id, nonce), `payload of ${nonce}`, 'PX', 60_000, 'NX'),
    publish: (
      job: EpisodeJob,
      nonce: string,
      more: { reward?: number; payload?: boolean; guarded?: boolean } = {},
    ) =>
      publishResult(redis, names, {
        summary: summaryOf(job, nonce, more.reward ?? 1),
        nonce,
        payload: more.payload ?? false,
        guarded: more.guarded ?? true,
      }),
    retry: (job: EpisodeJob, nonce: string) =>
      releaseEpisode(redis, names, job, { nonce, counted: true, failure }),
    handOff: (job: EpisodeJob, nonce: string) =>
      releaseEpisode(redis, names, job, { nonce, counted: false, failure: null }),
    deliver: (job: EpisodeJob) => deliverResult(redis, names, job, Date.now()),
    state: (job: EpisodeJob) => redis.hgetall(names.episode(job.episode_id)),
  };
}

/** `worker` carries the nonce, so that a test sees whose summary it is. */
function summaryOf(job: EpisodeJob, nonce: string, reward: number): ResultSummary {
  const base = nullSummary({
    job,
    task: null,
    attempt: 1,
    runSampling: {},
    worker: nonce,
    queued_at: 0,
    started_at: 0,
    now: 0,
    reason: { ended: 'cancelled' },
  });
  return { ...base, status: 'completed', stop_reason: 'agent_done', reward };
}

let pool: TestPool;
let names: QueueNames;
let step: ReturnType<typeof driver>;
let batches = 0;

beforeAll(async () => {
  pool = await openPool();
  names = queueNames(pool.options.prefix);
  step = driver(pool, names);
  await pool.queue.openRun({
    run_id: 'r',
    settings: { samples: 2, sampling: {}, limits: {}, manifest_hash: null },
  });
});
afterAll(async () => {
  await pool[Symbol.asyncDispose]();
});

/** The jobs of a new group of `samples` samples, in order. */
async function newGroup(samples: number, more: { deadline_at?: number } = {}): Promise<EpisodeJob[]> {
  const batch_id = `b${batches++}`;
  await pool.queue.addBatch({
    run_id: 'r',
    batch_id,
    tasks: [aTask('t')],
    samples,
    laneOf: () => lane,
    ...more,
  });
  const jobs = await pool.redis.keys(`${names.queueBase(`episodes-${lane}`)}e${'[0-9a-f]'.repeat(24)}`);
  const data = await Promise.all(jobs.map(async (key) => JSON.parse((await pool.redis.hget(key, 'data'))!)));
  return (data as EpisodeJob[])
    .filter((job) => job.batch_id === batch_id)
    .sort((a, b) => a.sample_index - b.sample_index);
}

async function entriesOf(job: EpisodeJob): Promise<ClosedGroup[]> {
  return (await pool.closedGroups()).filter((group) => group.group_id === job.group_id);
}

describe('claim', () => {
  it('counts an attempt once, however often the same call arrives', async () => {
    const [job] = await newGroup(1);
    expect(await step.claim(job!, 'a')).toEqual({ verdict: 'run', attempts: 1 });
    expect(await step.claim(job!, 'a')).toEqual({ verdict: 'run', attempts: 1 });
    expect(await step.claim(job!, 'b')).toEqual({ verdict: 'run', attempts: 2 });
    expect(await step.state(job!)).toMatchObject({ state: 'running', attempts: '2', nonce: 'b' });
  });

  it('stops at the cap and tells the last failure', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a', { maxAttempts: 1 });
    expect(await step.retry(job!, 'a')).toBe('released');
    expect(await step.claim(job!, 'b', { maxAttempts: 1 })).toEqual({
      verdict: 'exhausted',
      attempts: 1,
      lastFailure: JSON.stringify(failure),
    });
  });

  it('does not run what is published, and ends what is delivered', async () => {
    const [job, other] = await newGroup(2);
    await step.claim(job!, 'a');
    await step.publish(job!, 'a');
    expect((await step.claim(job!, 'b')).verdict).toBe('published');
    await step.deliver(job!);
    expect((await step.claim(job!, 'b')).verdict).toBe('end');
    expect((await step.claim(other!, 'c')).verdict).toBe('run');
  });

  it('does not start after the deadline', async () => {
    const deadline_at = Date.now() + 60_000;
    const [job] = await newGroup(1, { deadline_at });
    expect(job!.deadline_at).toBe(deadline_at);
    expect(await step.claim(job!, 'a', { now: deadline_at + 1 })).toEqual({
      verdict: 'ended',
      attempts: 0,
      reason: 'expired',
    });
    expect((await step.claim(job!, 'a', { now: deadline_at - 1 })).verdict).toBe('run');
  });

  it('knows a cancelled episode, a cancelled group and a stale one', async () => {
    const [one, other] = await newGroup(2);
    expect(await pool.queue.cancelEpisode(one!.episode_id)).toBe(true);
    expect(await step.claim(one!, 'a')).toMatchObject({ verdict: 'ended', reason: 'cancelled' });
    expect((await step.claim(other!, 'b')).verdict).toBe('run');
    const [stale] = await newGroup(1);
    expect(await pool.queue.cancelGroup(stale!.group_id, 'stale')).toBe(true);
    expect(await step.claim(stale!, 'a')).toMatchObject({ verdict: 'ended', reason: 'stale' });
    expect(await pool.queue.cancelEpisode('e000000000000000000000000')).toBe(false);
  });

  it('ends a job whose episode nobody knows', async () => {
    const [job] = await newGroup(1);
    expect((await step.claim({ ...job!, episode_id: 'eunknown' }, 'a')).verdict).toBe('end');
  });
});

describe('release', () => {
  it('takes a hand-off back and counts a retry, once each', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    expect(await step.handOff(job!, 'a')).toBe('released');
    expect(await step.handOff(job!, 'a')).toBe('not_mine');
    expect(await step.claim(job!, 'b')).toEqual({ verdict: 'run', attempts: 1 });
    expect(await step.retry(job!, 'b')).toBe('released');
    expect(await step.retry(job!, 'b')).toBe('not_mine');
    expect(await step.claim(job!, 'c')).toEqual({ verdict: 'run', attempts: 2 });
  });

  it('leaves alone what a newer attempt has claimed, and what is published', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    await step.claim(job!, 'b');
    expect(await step.retry(job!, 'a')).toBe('not_mine');
    await step.publish(job!, 'b');
    expect(await step.handOff(job!, 'b')).toBe('settled');
  });
});

describe('publish', () => {
  it('takes the first attempt, says so again when asked again, and refuses its twin', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    await step.claim(job!, 'b');
    await step.store(job!, 'b');
    await step.store(job!, 'a');
    expect(await step.publish(job!, 'b', { payload: true })).toEqual(['published']);
    expect(await step.publish(job!, 'b', { payload: true })).toEqual(['published']);
    expect(await step.publish(job!, 'a', { payload: true })).toEqual(['dup']);
    expect(await pool.redis.pttl(names.payload(job!.episode_id, 'b'))).toBe(-1);
    expect(await pool.redis.exists(names.payload(job!.episode_id, 'a'))).toBe(0);
    expect(await step.state(job!)).toMatchObject({ by: 'b', payload: names.payload(job!.episode_id, 'b') });
  });

  it('keeps the payload of the winner when its call arrives again after the group has closed', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    await step.store(job!, 'a');
    expect(await step.publish(job!, 'a', { payload: true })).toEqual(['published']);
    await step.deliver(job!);
    expect(await step.publish(job!, 'a', { payload: true })).toEqual(['published']);
    expect(await pool.redis.pttl(names.payload(job!.episode_id, 'a'))).toBe(-1);
    await step.store(job!, 'b');
    expect(await step.publish(job!, 'b', { payload: true })).toEqual(['late']);
    expect(await pool.redis.exists(names.payload(job!.episode_id, 'b'))).toBe(0);
  });

  it('refuses a result whose payload is not there', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    expect(await step.publish(job!, 'a', { payload: true })).toEqual(['no_payload']);
    expect(await step.state(job!)).toMatchObject({ state: 'running' });
  });

  it('lets a cancel win over a result that comes later', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    await pool.queue.cancelEpisode(job!.episode_id);
    expect(await step.publish(job!, 'a')).toEqual(['ended', 'cancelled']);
    expect(await step.publish(job!, 'a', { guarded: false })).toEqual(['published']);
  });

  it('finds a closed group closed: the result is late', async () => {
    const [job] = await newGroup(1);
    await step.claim(job!, 'a');
    expect(await pool.queue.closeGroup(job!.group_id)).toBe(true);
    expect(await step.publish(job!, 'a')).toEqual(['late']);
    expect((await entriesOf(job!))[0]).toMatchObject({
      delivered: 0,
      missing: [{ episode_id: job!.episode_id, sample_index: 0, reason: 'late' }],
    });
    expect(await pool.queue.closeGroup(job!.group_id)).toBe(false);
  });
});

describe('deliver', () => {
  it('fills each slot once and closes the group once, whatever is replayed', async () => {
    const jobs = await newGroup(3);
    for (const job of jobs) {
      await step.claim(job, job.episode_id);
      expect(await step.deliver(job)).toEqual(['unpublished']);
      await step.publish(job, job.episode_id, { reward: job.sample_index });
    }
    expect(await step.deliver(jobs[2]!)).toEqual(['delivered']);
    expect(await step.deliver(jobs[2]!)).toEqual(['dup']);
    expect(await step.deliver(jobs[0]!)).toEqual(['delivered']);
    expect((await step.deliver(jobs[1]!))[0]).toBe('closed');
    for (const job of jobs) expect(await step.deliver(job)).toEqual(['dup']);
    const entries = await entriesOf(jobs[0]!);
    expect(entries).toHaveLength(1);
    expect(entries[0]!.results.map(({ summary }) => summary.reward)).toEqual([0, 1, 2]);
    expect(await pool.redis.exists(...jobs.map((job) => names.episode(job.episode_id)))).toBe(0);
  });

  it('closes an unfinished group with what is there, published results included', async () => {
    const [delivered, published, running, queued, cancelled] = await newGroup(5);
    for (const job of [delivered, published, running]) await step.claim(job!, 'n');
    await step.publish(delivered!, 'n');
    await step.deliver(delivered!);
    await step.publish(published!, 'n');
    await pool.queue.cancelEpisode(cancelled!.episode_id);
    expect(await pool.queue.closeGroup(queued!.group_id)).toBe(true);
    const [entry] = await entriesOf(queued!);
    expect(entry!.results.map(({ summary }) => summary.sample_index)).toEqual([0, 1]);
    expect(entry!.missing.map(({ sample_index, reason }) => [sample_index, reason])).toEqual([
      [2, 'late'],
      [3, 'late'],
      [4, 'cancelled_before_start'],
    ]);
    expect(entry!.delivered + entry!.missing.length).toBe(entry!.group_size);
    expect((await step.claim(running!, 'later')).verdict).toBe('end');
  });
});

describe('two attempts of one episode in any order', () => {
  const action = fc.constantFrom('claim', 'store', 'publish', 'retry', 'handOff', 'deliver');
  it('yield exactly one entry, with payload and reward of the same attempt', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom('a', 'b'), action), { maxLength: 24 }),
        async (steps) => {
          const [job] = await newGroup(1);
          const rewards: Record<string, number> = { a: 0.25, b: 0.75 };
          const run = async (who: string, what: string): Promise<void> => {
            if (what === 'claim') await step.claim(job!, who, { maxAttempts: 1_000 });
            if (what === 'store') await step.store(job!, who);
            if (what === 'publish') await step.publish(job!, who, { reward: rewards[who]!, payload: true });
            if (what === 'retry') await step.retry(job!, who);
            if (what === 'handOff') await step.handOff(job!, who);
            if (what === 'deliver') await step.deliver(job!);
          };
          for (const [who, what] of steps) await run(who, what);
          // Whatever happened, one attempt that goes through ends it.
          for (const what of ['claim', 'store', 'publish', 'deliver']) await run('a', what);
          const entries = await entriesOf(job!);
          expect(entries).toHaveLength(1);
          const { summary, payload } = entries[0]!.results[0]!;
          expect(summary.reward).toBe(rewards[summary.worker]);
          expect(payload).toBe(names.payload(job!.episode_id, summary.worker));
          expect(await pool.redis.get(payload!)).toBe(`payload of ${summary.worker}`);
        },
      ),
      { numRuns: 60 },
    );
    expect(await pool.queue.runStatus('r')).toSatisfy((status: { episodes: Record<string, number> }) =>
      Object.values(status.episodes).every((count) => count >= 0),
    );
  });
});
