import { hostname } from 'node:os';
import { Worker } from 'bullmq';
import { defaultLimits, type Lane } from '../../contracts/index.ts';
import { silentLogger } from '../../observe/index.ts';
import type { CloseOptions, EpisodeWorker, EpisodeWorkerOptions, WorkerRecord } from '../api.ts';
import { connectPatient, disconnect } from '../connection.ts';
import { JobQueues, keepFinished } from '../job-queues.ts';
import { releaseEpisode } from '../lua/release.ts';
import { episodeQueue, queueNames } from '../names.ts';
import { AbortCause } from '../processor.ts';
import { Publisher } from '../publisher.ts';
import { RunReader } from '../run-settings.ts';
import { TaskReader } from '../task-store.ts';
import { defaultMaxAttempts, defaultTimings } from '../timings.ts';
import { newWorkerId, startHeartbeat } from '../workers-alive.ts';
import { EpisodeRunner } from './episode-runner.ts';
import { Gate } from './gate.ts';
import { LiveEpisodes, type LiveJob } from './live-episodes.ts';
import { startLockRenewal } from './lock-renewal.ts';
import { within } from './within.ts';

/** BullMQ ends a job that stalled too often; our own count of attempts decides, so its is out of reach. */
const neverTooOften = 1_000_000_000;

/**
 * Takes episodes from the given lanes and runs them with `process` until it is closed. Rejects with
 * RedisUnreachableError when Redis does not answer at start; later it waits for Redis to come back.
 */
export async function startEpisodeWorker(options: EpisodeWorkerOptions): Promise<EpisodeWorker> {
  const { lanes } = options;
  const log = options.log ?? silentLogger;
  const timings = { ...defaultTimings, ...options.timings };
  const names = queueNames(options.prefix);
  const id = options.workerId ?? newWorkerId();
  const limits = laneLimits(options);
  const redis = await connectPatient({
    redisUrl: options.redisUrl,
    log,
    reconnectMs: timings.reconnectMs,
    name: `rollpool-${id}`,
  });
  const jobs = new JobQueues(redis, names, log);
  const live = new LiveEpisodes();
  const total = typeof options.concurrency === 'number' ? options.concurrency : Infinity;
  const runner = new EpisodeRunner({
    redis,
    names,
    log,
    worker: id,
    timings,
    maxAttempts: options.maxAttempts ?? defaultMaxAttempts,
    publishSeconds: options.publishSeconds ?? defaultLimits.publish_seconds,
    process: options.process,
    live,
    gate: new Gate(total),
    publisher: new Publisher(redis, names, jobs, timings.payloadTtlMs),
    tasks: new TaskReader(redis, names),
    runs: new RunReader(redis, names),
    onlyRun: options.onlyRun,
    onPublished: options.onPublished,
  });

  const workers = new Map<Lane, Worker>();
  for (const lane of lanes) {
    // Its meta is written by opening the queue: that bounds the stream of events.
    jobs.lane(lane);
    const worker = new Worker(
      episodeQueue(lane),
      // BullMQ makes a signal only for a processor with exactly three parameters.
      async (job, token, signal) => runner.run(lane, job, token!, signal),
      {
        connection: redis,
        prefix: names.prefix,
        concurrency: limits.get(lane)!,
        lockDuration: timings.lockMs,
        stalledInterval: timings.stalledMs,
        maxStalledCount: neverTooOften,
        skipLockRenewal: true,
        runRetryDelay: timings.reconnectMs,
        removeOnComplete: keepFinished,
        removeOnFail: keepFinished,
      },
    );
    worker.on('error', (error) => log.warn({ err: error.message, lane }, 'episode worker'));
    worker.on('stalled', (job) => log.warn({ episode: job, lane }, 'an episode without a worker goes back'));
    workers.set(lane, worker);
  }
  const started_at = Date.now();
  const record = (): WorkerRecord => ({
    worker: id,
    host: hostname(),
    pid: process.pid,
    started_at,
    seen_at: Date.now(),
    lanes: Object.fromEntries(limits),
    running: live.size,
  });
  const heartbeat = await startHeartbeat({
    redis,
    names,
    everyMs: timings.heartbeatMs,
    ttlMs: timings.heartbeatTtlMs,
    record,
  });
  const renewal = startLockRenewal({ live, workers, lockMs: timings.lockMs, everyMs: timings.renewMs, log });

  let forceNow: () => void = () => undefined;
  const force = new Promise<void>((resolve) => {
    forceNow = resolve;
  });
  let closing: Promise<void> | undefined;

  const shut = async (how: CloseOptions): Promise<void> => {
    const mode = how.mode ?? 'handoff';
    const deadlineMs = how.deadlineMs ?? 25_000;
    if (mode === 'now') forceNow();
    const deadline = setTimeout(forceNow, deadlineMs);
    runner.closing = true;
    try {
      await Promise.all([...workers.values()].map((worker) => worker.pause(true)));
      if (mode === 'drain') {
        const drainMs = deadlineMs - Math.min(10_000, deadlineMs / 2);
        await Promise.race([within(live.allSettled(), drainMs), force]);
      }
      live.abort(() => true, new AbortCause('handoff', 'the worker shuts down'));
      await Promise.race([live.allSettled(), force]);
      await Promise.race([Promise.all([...workers.values()].map((worker) => worker.close())), force]);
    } finally {
      clearTimeout(deadline);
    }
    await finish();
  };

  /** Takes the attempts back of what is still in hand: a shutdown is none. The jobs themselves go with their locks. */
  const giveBack = async (): Promise<void> => {
    const claimed = [...live.all()].filter((job) => job.attempt > 0);
    const by = { counted: false, failure: null };
    await Promise.all(claimed.map((job) => releaseEpisode(redis, names, job, { nonce: job.nonce, ...by })));
  };

  const finish = async (): Promise<void> => {
    live.abort(() => true, new AbortCause('shutdown', 'the worker ends at once'));
    renewal.stop();
    await within(giveBack(), 1_000);
    await within(heartbeat.stop(), 1_000);
    await within(Promise.all([...workers.values()].map((worker) => worker.close(true))), 2_000);
    await within(jobs.close(), 1_000);
    await disconnect(redis);
  };

  const abort = (matches: (job: LiveJob) => boolean, cause: AbortCause): number => live.abort(matches, cause);
  const close = async (how: CloseOptions = {}): Promise<void> => {
    if (closing !== undefined) forceNow();
    closing ??= shut(how);
    await closing;
  };
  return {
    id,
    live: () =>
      [...live.all()].map(({ episode_id, group_id, run_id, lane, attempt, nonce, started_at: at }) => ({
        episode_id,
        group_id,
        run_id,
        lane,
        attempt,
        nonce,
        started_at: at,
      })),
    abortEpisode: (episode_id, cause) => abort((job) => job.episode_id === episode_id, cause),
    abortGroup: (group_id, cause) => abort((job) => job.group_id === group_id, cause),
    abortRun: (run_id, cause) => abort((job) => job.run_id === run_id, cause),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** Episodes each lane's BullMQ worker may take: its own number, or the total, which the gate then bounds. */
function laneLimits(options: EpisodeWorkerOptions): Map<Lane, number> {
  const { concurrency } = options;
  if (options.lanes.length === 0) throw new Error('lanes: a worker needs at least one');
  return new Map(
    options.lanes.map((lane) => {
      const limit = typeof concurrency === 'number' ? concurrency : concurrency[lane];
      if (limit === undefined || !Number.isInteger(limit) || limit < 1) {
        throw new Error(`concurrency: lane ${lane} needs a whole number of at least 1, got ${limit}`);
      }
      return [lane, limit];
    }),
  );
}
