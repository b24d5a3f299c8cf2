import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Milliseconds before a worker that ended by itself is started again; doubles up to the longest. */
const restartMs = 1_000;
const restartMaxMs = 30_000;

export interface WorkerProcesses extends AsyncDisposable {
  /** Resolves when every process has said that it is ready; rejects when one ends before. */
  readonly ready: Promise<void>;
  /** Rejects when a process ends that was not told to; never resolves. */
  readonly failed: Promise<never>;
  /** SIGTERM to all, and waits for them; a second call kills. */
  stop(): Promise<void>;
}

export interface ForkOptions {
  readonly processes: number;
  /** Command line after the program, `worker ...`. Secrets travel in the environment. */
  readonly arguments: readonly string[];
  /** Default: that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** File descriptor for what they print. Default: that of this process. */
  readonly output?: number;
}

interface WorkerMessage {
  readonly ready?: string;
}

function start(options: ForkOptions): ChildProcess {
  const [, program] = process.argv;
  if (program === undefined) throw new Error('this process has no program to start again');
  const output = options.output ?? 'inherit';
  return fork(program, options.arguments, {
    ...(options.env === undefined ? {} : { env: options.env }),
    stdio: ['ignore', output, output, 'ipc'],
    // A Ctrl-C goes to the whole foreground group; the workers are to hear of it from us, once.
    detached: true,
  });
}

/** Starts worker processes and leaves restarting to the caller: a short-lived pool fails as a whole. */
export function forkWorkers(options: ForkOptions): WorkerProcesses {
  let stopping = false;
  const children = Array.from({ length: options.processes }, () => start(options));
  const ended = children.map(
    (child) =>
      new Promise<string>((resolve) =>
        child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code ?? 0}`)),
      ),
  );
  const ready = Promise.all(
    children.map(async (child, index) => {
      const message = new Promise<void>((resolve) =>
        child.on('message', (said: WorkerMessage) => {
          if (said.ready !== undefined) resolve();
        }),
      );
      const end = await Promise.race([message, ended[index]]);
      if (end !== undefined) throw new Error(`a worker process ended before it was ready: ${end}`);
    }),
  ).then(() => {});
  const failed = new Promise<never>((_resolve, reject) => {
    for (const end of ended) {
      void end.then((how) => {
        if (!stopping) reject(new Error(`a worker process ended: ${how}`));
      });
    }
  });
  failed.catch(() => {});
  ready.catch(() => {});
  const stop = async (): Promise<void> => {
    for (const child of children) {
      if (child.exitCode === null && child.signalCode === null) child.kill(stopping ? 'SIGKILL' : 'SIGTERM');
    }
    stopping = true;
    await Promise.all(ended);
  };
  return { ready, failed, stop, [Symbol.asyncDispose]: stop };
}

/** Runs `--processes` workers and starts again what ends, until told to stop; gives the exit code. */
export async function supervise(options: {
  readonly processes: number;
  readonly arguments: readonly string[];
  readonly shutdown: { readonly graceful: AbortSignal; readonly forced: AbortSignal; request(): void };
}): Promise<number> {
  const { graceful, forced } = options.shutdown;
  const alone = [...options.arguments, '--processes', '1'];
  const keepOne = async (): Promise<number> => {
    let wait = restartMs;
    for (;;) {
      const child = start({ processes: 1, arguments: alone });
      const startedAt = performance.now();
      let wasReady = false;
      child.on('message', (said: WorkerMessage) => {
        wasReady ||= said.ready !== undefined;
      });
      const terminate = (): boolean => child.kill('SIGTERM');
      const kill = (): boolean => child.kill('SIGKILL');
      graceful.addEventListener('abort', terminate);
      forced.addEventListener('abort', kill);
      if (graceful.aborted) terminate();
      const [code] = (await once(child, 'exit')) as [number | null];
      graceful.removeEventListener('abort', terminate);
      forced.removeEventListener('abort', kill);
      if (graceful.aborted) return code === 0 ? 0 : 1;
      // What cannot start will not start the next time either: bad settings, no lane, no policy.
      if (!wasReady) {
        options.shutdown.request();
        return code ?? 1;
      }
      if (performance.now() - startedAt > restartMaxMs) wait = restartMs;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait);
        graceful.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
      });
      if (graceful.aborted) return 0;
      wait = Math.min(wait * 2, restartMaxMs);
    }
  };
  const codes = await Promise.all(Array.from({ length: options.processes }, keepOne));
  return Math.max(...codes);
}
