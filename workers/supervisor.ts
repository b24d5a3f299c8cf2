import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Logger } from '../src/observe/index.ts';

/** Milliseconds before a worker that ended by itself is started again; doubles up to the longest. */
const restartMs = 1_000;
const restartMaxMs = 30_000;

/** Worker processes cannot serve: one did not start, or ended too often. */
export class WorkerProcessError extends Error {
  /** Of the process that ended; null when a signal ended it. */
  readonly exitCode: number | null;
  constructor(message: string, exitCode: number | null) {
    super(message);
    this.name = 'WorkerProcessError';
    this.exitCode = exitCode;
  }
}

export interface WorkerPoolOptions {
  readonly processes: number;
  /** Default: the one this process runs. */
  readonly program?: string;
  /** Command line after the program, `worker ...`. Secrets travel in the environment, which `ps` does not show. */
  readonly arguments: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** File descriptor for what they print. Default: that of this process. */
  readonly output?: number;
  /** Ends in a row, each within 30 s of its start, after which a worker is not started again. Default: none. */
  readonly giveUpAfter?: number;
  readonly log: Logger;
}

export interface WorkerPool extends AsyncDisposable {
  /** Resolves when every process has been ready; rejects as `failed` does. */
  readonly ready: Promise<void>;
  /** Rejects with WorkerProcessError when the pool cannot go on; never resolves. */
  readonly failed: Promise<never>;
  /** Processes that ended and were not told to. */
  readonly crashes: () => number;
  /** SIGTERM to all, which hands their episodes off, and waits for them; true when all ended well. */
  readonly stop: () => Promise<boolean>;
  /** SIGKILL to all; `stop` then waits for their ends. */
  readonly kill: () => void;
}

interface WorkerEnd {
  readonly code: number | null;
  readonly how: string;
}

function start(options: WorkerPoolOptions): ChildProcess {
  const program = options.program ?? process.argv[1];
  if (program === undefined) throw new Error('this process has no program to start again');
  const output = options.output ?? 'inherit';
  return fork(program, options.arguments, {
    env: options.env,
    stdio: ['ignore', output, output, 'ipc'],
    // A Ctrl-C goes to the whole foreground group; the workers are to hear of it from us, once.
    detached: true,
  });
}

async function endOf(child: ChildProcess): Promise<WorkerEnd> {
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    return { code, how: signal ?? `exit code ${code}` };
  } catch (error) {
    return { code: null, how: (error as Error).message };
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}

/**
 * Starts worker processes and starts again, with growing pauses, what ends by itself. What cannot start the first time
 * will not the next time either (bad settings, no lane, no policy), so that the pool fails then; one that was ready
 * before is tried again, as a Redis or a policy that is away comes back.
 */
export function startWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const stopping = new AbortController();
  const children = new Set<ChildProcess>();
  let crashes = 0;
  let endedWell = true;

  const keepOne = async (onReady: () => void): Promise<void> => {
    let wait = restartMs;
    let inARow = 0;
    let everReady = false;
    while (!stopping.signal.aborted) {
      const startedAt = performance.now();
      const child = start(options);
      children.add(child);
      child.on('message', (said: { readonly ready?: string }) => {
        if (said.ready === undefined) return;
        everReady = true;
        onReady();
      });
      const { code, how } = await endOf(child);
      children.delete(child);
      if (stopping.signal.aborted) {
        endedWell &&= code === 0;
        return;
      }
      if (!everReady) throw new WorkerProcessError(`a worker process could not start: ${how}`, code);
      crashes += 1;
      if (performance.now() - startedAt > restartMaxMs) [wait, inARow] = [restartMs, 0];
      inARow += 1;
      if (inARow >= (options.giveUpAfter ?? Infinity)) {
        throw new WorkerProcessError(`a worker process ended ${inARow} times in a row: ${how}`, code);
      }
      options.log.warn({ how, restart_ms: wait }, 'a worker process ended and is started again');
      await pause(wait, stopping.signal);
      wait = Math.min(wait * 2, restartMaxMs);
    }
  };

  const readies: Promise<void>[] = [];
  const lives = Array.from({ length: options.processes }, async () => {
    let onReady = (): void => {};
    readies.push(new Promise((resolve) => (onReady = resolve)));
    await keepOne(onReady);
  });
  const failed = new Promise<never>((_resolve, reject) => {
    for (const life of lives) life.catch(reject);
  });
  const ready = Promise.race([Promise.all(readies).then(() => {}), failed]);
  // Who waits for neither is told by `stop`.
  failed.catch(() => {});
  ready.catch(() => {});

  const end = (signal: NodeJS.Signals): void => {
    stopping.abort();
    for (const child of children) child.kill(signal);
  };
  const kill = (): void => end('SIGKILL');
  const stop = async (): Promise<boolean> => {
    if (!stopping.signal.aborted) end('SIGTERM');
    const ends = await Promise.allSettled(lives);
    return endedWell && ends.every(({ status }) => status === 'fulfilled');
  };
  return {
    ready,
    failed,
    crashes: () => crashes,
    stop,
    kill,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}

/** Keeps `--processes` workers running until told to stop; gives the exit code. */
export async function supervise(
  options: Omit<WorkerPoolOptions, 'giveUpAfter' | 'output'> & {
    readonly shutdown: { readonly graceful: AbortSignal; readonly forced: AbortSignal };
  },
): Promise<number> {
  const { graceful, forced } = options.shutdown;
  if (graceful.aborted) return 0;
  const pool = startWorkerPool(options);
  const stopped = once(graceful, 'abort');
  forced.addEventListener('abort', pool.kill);
  try {
    await Promise.race([pool.ready, stopped]);
    if (!graceful.aborted) options.log.info({ processes: options.processes }, 'workers ready');
    await Promise.race([stopped, pool.failed]);
    return (await pool.stop()) ? 0 : 1;
  } catch (error) {
    // The process has said why on the stderr it shares with us.
    if (!(error instanceof WorkerProcessError)) throw error;
    await pool.stop();
    return error.exitCode ?? 1;
  } finally {
    forced.removeEventListener('abort', pool.kill);
  }
}
