import { randomBytes } from 'node:crypto';
import { crashPoint, silentLogger } from '../observe/index.ts';
import type { QueueOptions, ReconcileReport, Running } from './api.ts';
import { connectPatient, disconnect } from './connection.ts';
import { dropLock } from './lua/drop-lock.ts';
import { surveyGroups } from './lua/survey-group.ts';
import { queueNames } from './names.ts';
import { readBatch, repairGroup, repairParts, type RepairParts } from './repair.ts';
import type { BatchSettings } from './run-settings.ts';
import { defaultTimings } from './timings.ts';

const groupsAtOnce = 200;

/** One pass over one run or all of them, alone by a lock; null when another reconciler is at work. */
export async function reconcileOnce(parts: RepairParts, run_id?: string): Promise<ReconcileReport | null> {
  const { redis, names, lockMs } = parts;
  const token = randomBytes(12).toString('hex');
  if ((await redis.set(names.reconcileLock, token, 'PX', lockMs, 'NX')) === null) return null;
  try {
    crashPoint('reconcile:before');
    const runs = run_id === undefined ? await redis.zrange(names.runs, '0', '-1') : [run_id];
    const report = { groups: 0, requeued: 0, republished: 0, swept: 0 };
    for (const run of runs) {
      const batches = new Map<string, BatchSettings | null>();
      for await (const chunk of openGroups(parts, run)) {
        if ((await redis.get(names.reconcileLock)) !== token) return report;
        await redis.pexpire(names.reconcileLock, lockMs);
        for (const group of await surveyGroups(redis, names, run, chunk)) {
          if (group === null) continue;
          report.groups += 1;
          let batch = batches.get(group.batch_id);
          if (batch === undefined) {
            batch = await readBatch(redis, names, run, group.batch_id);
            batches.set(group.batch_id, batch);
          }
          if (batch === null) continue;
          const repaired = await repairGroup(parts, group, batch);
          report.requeued += repaired.requeued;
          report.republished += repaired.republished;
          report.swept += repaired.swept;
        }
      }
    }
    crashPoint('reconcile:after');
    return report;
  } finally {
    await dropLock(redis, names.reconcileLock, token);
  }
}

async function* openGroups({ redis, names }: RepairParts, run: string): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, ids] = await redis.sscan(names.openGroups(run), cursor, 'COUNT', groupsAtOnce);
    cursor = next;
    for (let at = 0; at < ids.length; at += groupsAtOnce) yield ids.slice(at, at + groupsAtOnce);
  } while (cursor !== '0');
}

/**
 * Compares what every run expects with what is queued, running, published and delivered, every `reconcileMs`, and
 * repairs the gaps. Any number may run; one at a time works.
 */
export async function startReconciler(options: QueueOptions): Promise<Running> {
  const log = options.log ?? silentLogger;
  const timings = { ...defaultTimings, ...options.timings };
  const names = queueNames(options.prefix);
  const redis = await connectPatient({
    redisUrl: options.redisUrl,
    log,
    reconnectMs: timings.reconnectMs,
    name: 'rollpool-reconciler',
  });
  const parts = repairParts(redis, names, timings, log);
  const { jobs } = parts;
  let pass: Promise<void> | undefined;
  const once = (): void => {
    pass ??= reconcileOnce(parts)
      .then(
        (report) => {
          if (report !== null && report.requeued + report.republished + report.swept > 0) {
            log.info({ ...report }, 'reconciler repaired');
          }
        },
        (error: unknown) => log.warn({ err: error }, 'reconciler'),
      )
      .finally(() => {
        pass = undefined;
      });
  };
  // Not all workers of a fleet at the same moment.
  const timer = setInterval(once, timings.reconcileMs * (0.9 + 0.2 * Math.random()));

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> =>
    (closing ??= (async () => {
      clearInterval(timer);
      // With Redis away its commands would wait for it.
      if (redis.status !== 'ready') redis.disconnect();
      await pass;
      await jobs.close();
      await disconnect(redis);
    })());
  return { close, [Symbol.asyncDispose]: close };
}
