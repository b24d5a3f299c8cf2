import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { concurrencyOf, probeLanes, reaperOf } from '../../workers/lanes.ts';
import { reapOnce } from '../../workers/reaper.ts';
import { startWorkerPool } from '../../workers/supervisor.ts';
import type { Settings } from '../config/index.ts';
import type { Lane, ResultSummary } from '../contracts/index.ts';
import type { RunStatus } from '../queue/index.ts';
import { BadUse, exitCodes, RunFailed } from './bad-use.ts';
import { collectResults } from './collect-results.ts';
import type { QueueContext } from './context.ts';
import { createProgress, type Snapshot } from './progress.ts';
import type { Shutdown } from './shutdown.ts';
import { cliStartsOf } from './worker.ts';

/** Ends of one worker in a row after which a run gives up; a worker that runs out of memory does so again. */
const giveUpAfter = 3;
/** Milliseconds that the end at once may take: children are killed, their sandboxes removed. */
const forcedMs = 20_000;

export interface WorkersOptions {
  readonly settings: Settings;
  readonly context: QueueContext;
  readonly run_id: string;
  /** Directory of the workers' log. */
  readonly out: string;
  /** File of the results. */
  readonly path: string;
  readonly lanes: readonly Lane[];
  /** Over this process's own environment, for the workers. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly processes: number;
  readonly allowUntrainable: boolean;
  readonly quiet: boolean;
  readonly shutdown: Shutdown;
}

/**
 * Runs the workers until the run is done or the user wants to stop; gives every result there is. Workers that end are
 * started again; RunFailed, with the end of their log, when one cannot start or ends again and again.
 */
export async function runWorkers(options: WorkersOptions): Promise<ResultSummary[]> {
  const { context, run_id, shutdown } = options;
  const progress = createProgress(process.stderr, options.quiet);
  const rate = sampleRate();
  const collecting = {
    queue: context.queue,
    options: context.options,
    run_id,
    path: options.path,
    onStatus: (status: RunStatus): void => progress.show(snapshotOf(status, rate(status.sampled_tokens))),
  };
  const stopped = new AbortController();
  const stop = (): void => {
    progress.stop();
    process.stderr.write('handing off running episodes; a second signal ends them at once\n');
    stopped.abort();
  };
  try {
    if ((await context.queue.runStatus(run_id))?.done === true) return await collectResults(collecting);
    shutdown.graceful.throwIfAborted();
    shutdown.graceful.addEventListener('abort', stop);
    return await withWorkers(options, (failed) =>
      Promise.race([collectResults({ ...collecting, signal: stopped.signal }), failed]),
    );
  } finally {
    shutdown.graceful.removeEventListener('abort', stop);
    // Where the workers failed, the collecting is still at it.
    stopped.abort();
    progress.stop();
  }
}

/** Runs `work` beside the workers; none of them, and nothing of theirs, is left when it settles. */
async function withWorkers<T>(
  options: WorkersOptions,
  work: (failed: Promise<never>) => Promise<T>,
): Promise<T> {
  const { context, shutdown } = options;
  const logFile = join(options.out, 'workers.log');
  const output = openLog(logFile);
  const pool = startWorkerPool({
    processes: options.processes,
    arguments: workerArguments(options),
    env: { ...process.env, ...options.env, REDIS_URL: context.options.redisUrl, REDIS_URL_FILE: undefined },
    output,
    giveUpAfter,
    log: context.log,
  });
  const force = (): void => {
    pool.kill();
    setTimeout(() => process.exit(exitCodes.someFailed), forcedMs).unref();
  };
  shutdown.forced.addEventListener('abort', force);
  const failed = pool.failed.catch((error: unknown) => {
    throw new RunFailed(`${(error as Error).message}. The end of ${logFile}:\n${tailOf(logFile)}`, {
      cause: error,
    });
  });
  // `work` may have settled before.
  failed.catch(() => {});
  try {
    return await work(failed);
  } finally {
    const clean = await pool.stop();
    shutdown.forced.removeEventListener('abort', force);
    closeSync(output);
    if (!clean || pool.crashes() > 0) await removeLeftovers(options);
  }
}

/** Removes the sandboxes, environments and sockets of workers that were killed. */
async function removeLeftovers({ settings, context }: WorkersOptions): Promise<void> {
  try {
    await using served = await probeLanes({ settings, log: context.log });
    const providers = [...served.values()].map(reaperOf);
    await reapOnce({ pool: settings.redis.prefix, providers, queue: context.queue });
  } catch (error) {
    process.stderr.write(
      `what killed workers left behind could not be removed (${(error as Error).message}): rollpool reap does it\n`,
    );
  }
}

function workerArguments({ settings, run_id, lanes, processes, allowUntrainable }: WorkersOptions): string[] {
  const concurrency = lanes.map(
    (lane) => `${lane}=${Math.max(1, Math.ceil(concurrencyOf(lane, settings) / processes))}`,
  );
  return [
    'worker',
    ...['--lanes', lanes.join(',')],
    // The policy and the local Fleet are this run's own.
    ...['--run-id', run_id],
    ...(lanes.includes('claude_code-local') ? ['--allow-local'] : []),
    ...(allowUntrainable ? ['--allow-untrainable'] : []),
    ...['--concurrency', concurrency.join(',')],
    ...['--cli-starts', String(cliStartsOf({ processes }))],
    ...(settings.policy.urls.length === 0 ? [] : ['--policy-url', settings.policy.urls.join(',')]),
    ...(settings.policy.model === null ? [] : ['--model', settings.policy.model]),
    ...(settings.sandbox.image === null ? [] : ['--image', settings.sandbox.image]),
    ...['--log-level', settings.logLevel],
  ];
}

function openLog(path: string): number {
  try {
    return openSync(path, 'a');
  } catch (cause) {
    throw new BadUse(`${path}: cannot be written (${(cause as NodeJS.ErrnoException).code})`, { cause });
  }
}

/** The last lines the workers printed, for a message that says why they ended. */
function tailOf(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
}

/** Tokens a second since the first look; what an earlier command had sampled does not count. */
function sampleRate(): (sampled: number) => number {
  const startedAt = performance.now();
  let before: number | undefined;
  return (sampled) => {
    before ??= sampled;
    return (sampled - before) / Math.max(1, (performance.now() - startedAt) / 1000);
  };
}

function snapshotOf(status: RunStatus, tokens_per_s: number): Snapshot {
  return {
    total: status.episodes.expected,
    done: status.episodes.delivered + status.episodes.missing,
    running: status.episodes.running,
    failed: status.by_status.failed,
    reward_mean: status.reward_mean,
    tokens_per_s,
  };
}
