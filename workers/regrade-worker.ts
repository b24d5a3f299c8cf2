import { availableParallelism } from 'node:os';
import type { Settings } from '../src/config/index.ts';
import type { Lane } from '../src/contracts/index.ts';
import { createRegradeProcessor } from '../src/episode/index.ts';
import { createCommandGrader } from '../src/grading/index.ts';
import type { Logger } from '../src/observe/index.ts';
import {
  newWorkerId,
  startEpisodeWorker,
  startFeeder,
  startReconciler,
  type CloseOptions,
  type QueueOptions,
  type RolloutQueue,
} from '../src/queue/index.ts';
import { startControlListener } from '../src/queue/control/index.ts';
import type { SandboxProvider } from '../src/sandbox/sandbox.ts';
import { openedParts } from './opened-parts.ts';
import { makeRuntimeDirectory } from './runtime-directory.ts';

/** The lane on which kept states of a provider are graded again. */
export const regradeLanes = { docker: 'regrade-docker', e2b: 'regrade-e2b' } as const satisfies Record<
  string,
  Lane
>;

export interface RegradeWorkerOptions {
  readonly settings: Settings;
  readonly queue: QueueOptions;
  readonly orders: Pick<RolloutQueue, 'regradeOrder'>;
  /** Providers that are there, by name; each serves its lane. */
  readonly providers: ReadonlyMap<keyof typeof regradeLanes, SandboxProvider>;
  /** The only run it works for: kept states lie on the machine that kept them. */
  readonly onlyRun: string;
  readonly log: Logger;
}

/**
 * Grades kept final states again in this process: a worker without policy, gateway and agents. Its heartbeat, its hand-off
 * and what it may leave behind are those of any worker.
 */
export async function startRegradeWorker(
  options: RegradeWorkerOptions,
): Promise<{ close(how?: CloseOptions): Promise<void> } & AsyncDisposable> {
  const { settings, log } = options;
  const id = newWorkerId();
  const opened = openedParts();
  const { keep } = opened;
  const closeParts = (): Promise<void> => Promise.resolve(opened[Symbol.asyncDispose]());
  try {
    const control = keep(await startControlListener(options.queue));
    // Whoever sweeps this machine sees by it that this process lives, and when it died.
    keep(await makeRuntimeDirectory(id, settings.redis.prefix));
    const processors = new Map(
      [...options.providers].map(([name, provider]) => [
        regradeLanes[name] as Lane,
        createRegradeProcessor({
          orderOf: (run_id, episode_id) => options.orders.regradeOrder(run_id, episode_id),
          provider,
          grader: createCommandGrader(),
          limits: settings.limits,
          pool: settings.redis.prefix,
          log,
        }),
      ]),
    );
    keep(await startFeeder(options.queue));
    keep(await startReconciler(options.queue));
    const worker = keep(
      await startEpisodeWorker({
        ...options.queue,
        lanes: [...processors.keys()],
        concurrency: settings.worker.concurrency.everyLane ?? 2 * availableParallelism(),
        process: async (attempt) => {
          const processor = processors.get(attempt.lane);
          if (processor === undefined) throw new Error(`no provider serves ${attempt.lane} here`);
          return processor(attempt);
        },
        workerId: id,
        maxAttempts: settings.worker.maxAttempts,
        onlyRun: options.onlyRun,
        publishSeconds: settings.limits.publish_seconds,
      }),
    );
    control.attach(worker);
    return {
      close: async (how) => {
        await worker.close(how);
        await closeParts();
      },
      [Symbol.asyncDispose]: closeParts,
    };
  } catch (error) {
    await closeParts();
    throw error;
  }
}
