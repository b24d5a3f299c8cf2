import type { Worker } from 'bullmq';
import type { Lane } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { AbortCause } from '../processor.ts';
import type { LiveEpisodes } from './live-episodes.ts';

/**
 * Renews the locks of every live job, one call a lane. BullMQ's own renewal is off: it keys jobs by id alone, so that
 * of two copies in one process the first to end would stop the renewal of the other.
 */
export function startLockRenewal(options: {
  readonly live: LiveEpisodes;
  readonly workers: ReadonlyMap<Lane, Worker>;
  readonly lockMs: number;
  readonly everyMs: number;
  readonly log: Logger;
}): { stop: () => void } {
  const { live, workers, lockMs, log } = options;
  const busy = new Set<Lane>();

  const renew = async (lane: Lane, worker: Worker): Promise<void> => {
    const jobs = [...live.newest()].filter((job) => job.lane === lane);
    if (jobs.length === 0 || busy.has(lane)) return;
    busy.add(lane);
    try {
      const ids = jobs.map((job) => job.episode_id);
      const tokens = jobs.map((job) => job.token);
      const lost = new Set(await worker.extendJobLocks(ids, tokens, lockMs));
      for (const job of jobs) {
        if (!lost.has(job.episode_id)) continue;
        if (job.abort(new AbortCause('lock_lost', 'the lock of its job was lost'))) {
          log.warn({ episode: job.episode_id, attempt: job.attempt }, 'lost the lock of an episode');
        }
      }
    } catch (error) {
      log.warn({ err: (error as Error).message, lane }, 'locks could not be renewed');
    } finally {
      busy.delete(lane);
    }
  };

  const timer = setInterval(() => {
    for (const [lane, worker] of workers) void renew(lane, worker);
  }, options.everyMs);
  return { stop: () => clearInterval(timer) };
}
