import { silentLogger } from '../observe/index.ts';
import { addBatch } from './add-batch.ts';
import type { QueueOptions, RolloutQueue } from './api.ts';
import { connectFailFast, disconnect } from './connection.ts';
import { closeOpenGroup } from './lua/close-group.ts';
import { setFlag } from './lua/set-flag.ts';
import { queueNames } from './names.ts';
import { openRun } from './open-run.ts';
import { orderRegrades, readRegradeOrder } from './regrade-orders.ts';
import { reconcileOnce } from './reconciler.ts';
import { readBatch, repairParts } from './repair.ts';
import { resumeParked } from './resume-parked.ts';
import { countLanes, readRunStatus } from './run-status.ts';
import { defaultTimings } from './timings.ts';
import { listSeenWorkers, listWorkers } from './workers-alive.ts';

/** Opens the queue for a producer or a command. Rejects with RedisUnreachableError within seconds. */
export async function createQueue(options: QueueOptions): Promise<RolloutQueue> {
  const log = options.log ?? silentLogger;
  const timings = { ...defaultTimings, ...options.timings };
  const names = queueNames(options.prefix);
  const redis = await connectFailFast({ redisUrl: options.redisUrl, log, reconnectMs: timings.reconnectMs });
  const parts = repairParts(redis, names, timings, log);
  const { jobs } = parts;
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> =>
    (closing ??= (async () => {
      await jobs.close();
      await disconnect(redis);
    })());
  return {
    names,
    redis,
    openRun: (run) => openRun(parts, run),
    addBatch: (batch) => addBatch(parts, batch),
    orderRegrades: (run_id, orders) => orderRegrades(redis, names, run_id, orders),
    regradeOrder: (run_id, episode_id) => readRegradeOrder(redis, names, run_id, episode_id),
    runStatus: (run_id) => readRunStatus(redis, names, run_id),
    listRuns: async () => {
      const ids = await redis.zrevrange(names.runs, 0, -1);
      const found = await Promise.all(ids.map((id) => readRunStatus(redis, names, id)));
      return found.filter((run) => run !== null);
    },
    laneCounts: () => countLanes(jobs),
    listWorkers: () => listWorkers(redis, names),
    listSeenWorkers: () => listSeenWorkers(redis, names),
    cancelRun: (run_id, reason = 'cancelled') => setFlag(redis, names.run(run_id), 'ended', reason),
    cancelGroup: (group_id, reason = 'cancelled') => setFlag(redis, names.group(group_id), 'ended', reason),
    cancelEpisode: (id, reason = 'cancelled') => setFlag(redis, names.episode(id), 'ended', reason),
    pauseRun: (run_id) => setFlag(redis, names.run(run_id), 'paused_at', Date.now()),
    resumeRun: async (run_id) => {
      const found = await setFlag(redis, names.run(run_id), 'paused_at', null);
      if (found) await resumeParked(redis, names, jobs, run_id);
      return found;
    },
    closeRun: (run_id) => setFlag(redis, names.run(run_id), 'closed_at', Date.now()),
    closeGroup: async (group_id) => {
      const [run_id, batch_id] = await redis.hmget(names.group(group_id), 'run', 'batch');
      if (!run_id || !batch_id) return false;
      const batch = await readBatch(redis, names, run_id, batch_id);
      const deadline_at = batch?.deadline_at ?? undefined;
      const [reply] = await closeOpenGroup(redis, names, { run_id, group_id, deadline_at }, Date.now());
      return reply === 'closed';
    },
    reconcile: (run_id) => reconcileOnce(parts, run_id),
    close,
    [Symbol.asyncDispose]: close,
  };
}
