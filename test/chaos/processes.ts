import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { until } from '../support/wait.ts';
import type { FromProcess, OpenPool, ToProcess } from './messages.ts';

const program = fileURLToPath(new URL('./pool-process.ts', import.meta.url));

type Said<Kind extends FromProcess['said']> = Extract<FromProcess, { said: Kind }>;

/** A worker process of its own, killed at the end of the test if it still lives. */
export interface PoolProcess extends AsyncDisposable {
  readonly pid: number;
  /** The signal it ended by, or null. */
  readonly ended: Promise<NodeJS.Signals | null>;
  /** Tells it to open a pool, without waiting. */
  open(pool: Omit<OpenPool, 'signal'> & { readonly signal?: OpenPool['signal'] }): void;
  go(name: string): void;
  close(name: string, mode?: 'handoff' | 'drain' | 'now'): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** What it has said of a pool so far. */
  heard<Kind extends FromProcess['said']>(said: Kind, name: string): Said<Kind>[];
  /** Resolves with what it says first of that kind. */
  wait<Kind extends FromProcess['said']>(said: Kind, name: string): Promise<Said<Kind>>;
  /** Resolves when it has come to a crash point after this call. */
  atPoint(): Promise<void>;
}

export function startProcess(): PoolProcess {
  const child = fork(program, [], {
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const messages: FromProcess[] = [];
  let passed = 0;
  child.on('message', (message: FromProcess) => messages.push(message));
  child.stdout!.on('data', () => (passed += 1));
  let exited = false;
  const ended = new Promise<NodeJS.Signals | null>((resolve) =>
    child.once('exit', (_code, signal) => {
      exited = true;
      resolve(signal);
    }),
  );
  /** Waits for what only a living process can do. */
  const fromIt = <T>(condition: () => T, what: string): Promise<NonNullable<T>> =>
    until(
      () => {
        const found = condition();
        if (!found && exited) throw new Error(`process ${child.pid} ended before it ${what}`);
        return found;
      },
      `process ${child.pid} ${what}`,
      50_000,
    );
  // A channel to a process that is gone is told by `ended`.
  child.on('error', () => undefined);
  const tell = (message: ToProcess): void => void child.send(message, () => undefined);
  const heard: PoolProcess['heard'] = (said, name) =>
    messages.filter((message) => message.said === said && message.name === name) as never;
  const wait: PoolProcess['wait'] = (said, name) =>
    fromIt(() => heard(said, name)[0], `said ${said} of ${name}`);
  return {
    pid: child.pid!,
    ended,
    open: (pool) => tell({ do: 'open', pool: { signal: 'SIGKILL', ...pool } }),
    go: (name) => tell({ do: 'go', name }),
    close: async (name, mode = 'handoff') => {
      tell({ do: 'close', name, mode });
      await wait('closed', name);
    },
    kill: (signal) => void child.kill(signal),
    heard,
    wait,
    atPoint: async () => {
      const before = passed;
      await fromIt(() => passed > before, 'came to its crash point');
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
