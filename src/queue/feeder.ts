import { DelayedError, Worker, type Job } from 'bullmq';
import { crashPoint, silentLogger } from '../observe/index.ts';
import type { FeederOptions, Running } from './api.ts';
import { connectPatient, disconnect } from './connection.ts';
import { JobQueues, keepFinished, type ResultJob } from './job-queues.ts';
import { deliverResult, type DeliverReply } from './lua/deliver.ts';
import { queueNames, resultsQueue } from './names.ts';
import { defaultTimings } from './timings.ts';

/**
 * Takes result jobs, fills group slots and appends closed groups to `groups:<run>`. Any number may run; each result is
 * delivered once. A result job never fails for good: what Redis refuses is tried again.
 */
export async function startFeeder(options: FeederOptions): Promise<Running> {
  const log = options.log ?? silentLogger;
  const timings = { ...defaultTimings, ...options.timings };
  const names = queueNames(options.prefix);
  const redis = await connectPatient({
    redisUrl: options.redisUrl,
    log,
    reconnectMs: timings.reconnectMs,
    name: 'rollpool-feeder',
  });
  const jobs = new JobQueues(redis, names, log);
  void jobs.results;

  const feed = async (job: Job<ResultJob>, token: string): Promise<{ verdict: DeliverReply[0] }> => {
    const { run_id, group_id, episode_id } = job.data;
    let reply: DeliverReply;
    try {
      crashPoint('deliver:before');
      reply = await deliverResult(redis, names, { run_id, group_id, episode_id }, Date.now());
      crashPoint('deliver:after');
    } catch (error) {
      log.error({ err: error, episode: episode_id }, 'a result could not be delivered; it is tried again');
      await job.moveToDelayed(Date.now() + timings.handBackMs, token);
      throw new DelayedError();
    }
    crashPoint('result.complete:before');
    return { verdict: reply[0] };
  };

  const worker = new Worker<ResultJob>(resultsQueue, async (job, token) => feed(job, token!), {
    connection: redis,
    prefix: names.prefix,
    concurrency: options.concurrency ?? 32,
    lockDuration: timings.lockMs,
    lockRenewTime: timings.renewMs,
    stalledInterval: timings.stalledMs,
    maxStalledCount: 1_000_000_000,
    runRetryDelay: timings.reconnectMs,
    removeOnComplete: keepFinished,
    removeOnFail: keepFinished,
  });
  worker.on('error', (error) => log.warn({ err: error.message }, 'feeder'));

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> =>
    (closing ??= (async () => {
      await worker.close(redis.status !== 'ready');
      await jobs.close();
      await disconnect(redis);
    })());
  return { close, [Symbol.asyncDispose]: close };
}
