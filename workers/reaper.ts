import type { Logger } from '../src/observe/index.ts';
import { createQueue, type QueueOptions, type RolloutQueue } from '../src/queue/index.ts';
import type { Reaper, ReapReport } from '../src/contracts/index.ts';
import { reaperOf, type ServedLanes } from './lanes.ts';
import { findDeadDirectories, removeDirectories } from './runtime-directory.ts';

const everyMs = 60_000;

export interface ReapTarget {
  readonly pool: string;
  readonly providers: readonly Reaper[];
  /** Knows the workers whose heartbeat has not run out, and those that were. */
  readonly queue: Pick<RolloutQueue, 'listWorkers' | 'listSeenWorkers'>;
  readonly all?: boolean;
  readonly run_id?: string;
}

/** Whose a lane's sandboxes and environments are. */
function providerOf(lane: string): string {
  return lane.replace(/^claude_code-/, '');
}

/** One sweep over every provider: what dead workers left behind, and what outlived its time. */
export async function reapOnce(target: ReapTarget): Promise<ReapReport> {
  // A worker's heartbeat outlives it by a minute and more; on its own machine its death shows at once.
  const dead = await findDeadDirectories(target.pool);
  const alive = new Map((await target.queue.listWorkers()).map(({ worker, lanes }) => [worker, lanes]));
  // A service is shared by pools of the same name with a Redis each: whose workers are not known here may well live.
  const seen = new Set(await target.queue.listSeenWorkers());
  const deadHere = new Set(dead.map(({ worker }) => worker));
  const removed: string[] = [];
  const kept: { id: string; why: string }[] = [];
  for (const provider of target.providers) {
    const report = await provider.reap({
      pool: target.pool,
      isDead: (worker) =>
        deadHere.has(worker) || (!alive.has(worker) && (provider.shared !== true || seen.has(worker))),
      ...(target.all === undefined ? {} : { all: target.all }),
      ...(target.run_id === undefined ? {} : { run_id: target.run_id }),
    });
    removed.push(...report.removed.map((id) => `${provider.name} ${id}`));
    kept.push(...report.kept);
  }
  // Last: as long as a heartbeat is there, they alone say that its worker is dead, to whoever looks where we did not.
  const looked = new Set(target.providers.map(({ name }) => name));
  const done = dead.filter(({ worker }) =>
    Object.keys(alive.get(worker) ?? {}).every((lane) => looked.has(providerOf(lane))),
  );
  removed.push(...(await removeDirectories(done)));
  return { removed, kept };
}

/** Sweeps at start and every minute, as long as the worker lives. */
export async function startReaper(options: {
  readonly queue: QueueOptions;
  readonly pool: string;
  readonly served: ServedLanes;
  readonly log: Logger;
}): Promise<AsyncDisposable> {
  const { log } = options;
  const queue = await createQueue(options.queue);
  const sweep = async (): Promise<void> => {
    try {
      const report = await reapOnce({
        pool: options.pool,
        providers: [...options.served.values()].map(reaperOf),
        queue,
      });
      if (report.removed.length > 0)
        log.info({ removed: report.removed }, 'removed what dead workers left behind');
    } catch (error) {
      log.warn({ err: error }, 'the sweep for leftovers failed; the next one tries again');
    }
  };
  let round = sweep();
  const timer = setInterval(() => {
    round = round.then(sweep);
  }, everyMs);
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await round;
      await queue.close();
    },
  };
}
