import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { constants } from 'node:os';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { killProcesses } from './kill-processes.ts';

/** After a command ended, how long what it started may still hold its output open. */
const drainMs = 250;
/** Processes a sandbox with a user of its own may have at once. */
const processLimit = 512;

/** What every command of a sandbox has in common. */
export interface CommandContext {
  /** The sandbox's user, or null for this process's own. */
  readonly uid: number | null;
  readonly env: Readonly<Record<string, string>>;
}

/** A command running on this machine. */
export interface LocalCommand {
  readonly child: ChildProcessWithoutNullStreams;
  /** 128 + n for signal n. All output was given before. Never rejects. */
  readonly exited: Promise<number>;
  /** Kills the process, its session and everything that carries its mark. */
  kill(timeoutMs: number): Promise<void>;
}

// Standard input is a socket here, and bash that reads from one takes itself for a remote shell and runs ~/.bashrc: a file
// the agent can write.
const plain = ['--noprofile', '--norc', '-c'];

function argvOf(command: string | readonly string[], uid: number | null): string[] {
  // A user of its own can be limited; a limit for the user everything else runs as would hit everything else.
  const limit = uid === null ? '' : `ulimit -u ${processLimit}; `;
  return typeof command === 'string'
    ? [...plain, limit === '' ? command : `${limit}exec bash ${plain.join(' ')} "$1"`, 'bash', command]
    : [...plain, `${limit}exec "$@"`, 'bash', ...command];
}

/** Starts a command in a session of its own. Rejects (infra) when it cannot be started. */
export async function startCommand(
  command: string | readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
  context: CommandContext,
): Promise<LocalCommand> {
  const mark = randomBytes(8).toString('hex');
  const child = spawn('bash', argvOf(command, context.uid), {
    cwd,
    env: { ...context.env, ...env, ROLLPOOL_EXEC: mark },
    detached: true,
    stdio: 'pipe',
    ...(context.uid === null ? {} : { uid: context.uid, gid: context.uid }),
  });
  // A process that left does not read; its exit says more than the broken pipe.
  child.stdin.on('error', () => undefined);
  child.stdout.on('error', () => undefined);
  child.stderr.on('error', () => undefined);
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (cause) =>
      reject(
        infraFailure('command_not_started', `bash cannot be started in ${cwd}: ${reasonOf(cause)}`, {
          cause,
        }),
      ),
    );
  });
  let alive = true;
  const exited = new Promise<number>((resolve) => {
    let code = 0;
    let drain: NodeJS.Timeout | undefined;
    child.once('exit', (exit, signal) => {
      alive = false;
      code = exit ?? 128 + (signal === null ? 0 : constants.signals[signal]);
      drain = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, drainMs);
    });
    child.once('close', () => {
      clearTimeout(drain);
      child.stdin.destroy();
      resolve(code);
    });
  });
  return {
    child,
    exited,
    kill: (timeoutMs) =>
      killProcesses(
        () => ({
          mark: `ROLLPOOL_EXEC=${mark}`,
          uid: null,
          directory: null,
          roots: alive && child.pid !== undefined ? [child.pid] : [],
        }),
        timeoutMs,
      ),
  };
}
