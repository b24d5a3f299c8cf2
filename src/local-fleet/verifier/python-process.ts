import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { boundedText } from './bounded-text.ts';
import type { Python } from './python.ts';

/** How a process ended, and what it wrote. */
export interface PythonExit {
  /** What it wrote to its descriptor 3. */
  readonly answer: string;
  readonly stdout: string;
  readonly stderr: string;
  /** In words: `exit code 1`, `SIGKILL`. */
  readonly ending: string;
  readonly timedOut: boolean;
}

const stdoutBytes = 256 * 1024;
const stderrBytes = 16 * 1024;
const answerBytes = 4 * 1024 * 1024;

/**
 * Runs a script in an isolated interpreter as the leader of a process group of its own, with nothing of this process's
 * environment. At `timeout_ms` and when the signal aborts the whole group is killed. Resolves in every case once it has
 * ended; rejects only when it cannot be started.
 */
export async function runPython(options: {
  readonly python: Python;
  readonly script: string;
  readonly input: string;
  /** Working and home directory. */
  readonly directory: string;
  readonly timeout_ms: number;
  readonly signal: AbortSignal;
}): Promise<PythonExit> {
  // -I: no PYTHON* variables, no user packages. -S: no .pth files of the machine, which may cost more than the verifier.
  const child = spawn(options.python.executable, ['-I', '-S', '-u', '-X', 'utf8', options.script, '3'], {
    cwd: options.directory,
    env: {
      PATH: '/usr/local/bin:/usr/bin:/bin',
      LANG: 'C.UTF-8',
      HOME: options.directory,
      TMPDIR: options.directory,
    },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  });
  const stdout = boundedText(child.stdout, stdoutBytes);
  const stderr = boundedText(child.stderr, stderrBytes);
  const answerPipe = child.stdio[3] as Readable;
  const answer = boundedText(answerPipe, answerBytes);
  const closed = once(child, 'close');
  closed.catch(() => undefined);
  await once(child, 'spawn');

  const killGroup = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // The group is gone already.
    }
  };
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup();
  }, options.timeout_ms);
  options.signal.addEventListener('abort', killGroup, { once: true });
  if (options.signal.aborted) killGroup();
  // It may end before it has read its input.
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input);
  // Whatever it left in its group holds its pipes open.
  child.once('exit', killGroup);
  try {
    const [code, signal] = (await closed) as [number | null, NodeJS.Signals | null];
    return {
      answer: answer(),
      stdout: stdout(),
      stderr: stderr(),
      ending: signal ?? `exit code ${code}`,
      timedOut,
    };
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener('abort', killGroup);
  }
}
