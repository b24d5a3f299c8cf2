import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import type Docker from 'dockerode';
import type { SandboxUser } from '../sandbox.ts';
import { daemonCall } from './daemon.ts';
import type { Sink } from '../paced-sink.ts';
import { demultiplex } from './demultiplex.ts';
import { homes, uids } from './users.ts';

const killScript = readFileSync(new URL('./kill-exec.sh', import.meta.url), 'utf8');

const callMs = 60_000;
/** How often a process is looked at whose output stays open: a child that keeps it open may outlive it. */
const lookEveryMs = 2_000;

export interface ExecStart {
  readonly command: string | readonly string[];
  readonly user: SandboxUser;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly sinks: { readonly stdout: Sink; readonly stderr: Sink };
}

/** A command started in a container. */
export interface RunningExec {
  readonly stdin: Duplex;
  /** 128 + n for signal n; null when the container or its daemon is gone. Never rejects. All output was given before. */
  readonly exited: Promise<number | null>;
  /**
   * Once it exited: whether it ever ran. Docker gives a command it could not start (a container that is ending, no process
   * slot, no such directory) exit code 126 or 127, which would be taken for the command's own.
   */
  started(): boolean;
  /** Kills the command's process tree. False when some of it would not die or could not be looked for. */
  kill(): Promise<boolean>;
}

/** The environment of a command: HOME, USER and what was asked for, on top of the image's own ENV. */
function environment(start: ExecStart, mark: string): string[] {
  const given: Record<string, string> = {
    HOME: homes[start.user],
    USER: start.user,
    LOGNAME: start.user,
    SHELL: '/bin/bash',
    LANG: 'C.UTF-8',
    ...start.env,
    ROLLPOOL_EXEC: mark,
  };
  return Object.entries(given).map(([name, value]) => `${name}=${value}`);
}

/** A list runs as it stands; through bash, so that a program that is not there is exit code 127 and not Docker's error. */
function argvOf(command: string | readonly string[]): string[] {
  return typeof command === 'string'
    ? ['bash', '--noprofile', '--norc', '-c', command]
    : ['bash', '--noprofile', '--norc', '-c', 'exec "$@"', 'bash', ...command];
}

async function exitCode(
  exec: Docker.Exec,
): Promise<{ running: boolean; code: number | null; started: boolean }> {
  const state = await daemonCall('inspect command', callMs, async () => exec.inspect());
  return { running: state.Running, code: state.ExitCode, started: state.Pid !== 0 };
}

/** Starts a command. Rejects (EpisodeError, infra) when the container or its daemon is gone. */
export async function startExec(container: Docker.Container, start: ExecStart): Promise<RunningExec> {
  const mark = randomBytes(8).toString('hex');
  const uid = uids[start.user];
  const exec = await daemonCall('create command', callMs, async () =>
    container.exec({
      Cmd: argvOf(start.command),
      User: `${uid}:${uid}`,
      WorkingDir: start.cwd,
      Env: environment(start, mark),
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
    }),
  );
  const stream = await daemonCall('start command', callMs, async () =>
    exec.start({ hijack: true, stdin: true }),
  );
  // A broken stream shows as its end; writing to a process that left is nobody's error.
  stream.on('error', () => undefined);

  let ended = false;
  let ran = true;
  const output = demultiplex(stream, start.sinks).then(() => {
    ended = true;
  });

  // Normally the output ends with the process; when a child keeps it open, the daemon may wait for that child.
  const watcher = setInterval(() => {
    exitCode(exec).then(
      ({ running }) => {
        if (!running) {
          clearInterval(watcher);
          const grace = setTimeout(() => {
            if (!ended) stream.destroy();
          }, 1_000);
          grace.unref();
        }
      },
      () => stream.destroy(),
    );
  }, lookEveryMs);
  watcher.unref();

  const exited = output.then(async () => {
    clearInterval(watcher);
    stream.destroy();
    try {
      for (let attempt = 0; attempt < 400; attempt++) {
        const state = await exitCode(exec);
        ran = state.started;
        if (!state.running) return state.code;
        await new Promise((resolve) => setTimeout(resolve, Math.min(5 * 2 ** attempt, 50)));
      }
    } catch {
      // The daemon or the container is gone, and the exit code with it.
    }
    return null;
  });

  return {
    stdin: stream,
    exited,
    started: () => ran,
    kill: async () => {
      const killer = await container.exec({
        Cmd: ['bash', '-c', killScript, 'rollpool-kill', mark],
        User: `${uid}:${uid}`,
        WorkingDir: '/',
        AttachStdout: true,
      });
      const killing = await killer.start({ hijack: true, stdin: true });
      await demultiplex(killing, { stdout: () => undefined, stderr: () => undefined });
      killing.destroy();
      return (await exitCode(killer)).code === 0;
    },
  };
}
