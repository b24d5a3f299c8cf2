import { spawn } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from '../support/wait.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const source = join(root, 'src', 'cli', 'main.ts');
const built = join(root, 'dist', 'src', 'cli', 'main.js');

function newestSource(): number {
  let newest = 0;
  for (const room of ['src', 'producer', 'workers']) {
    for (const entry of readdirSync(join(root, room), { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) newest = Math.max(newest, statSync(join(entry.parentPath, entry.name)).mtimeMs);
    }
  }
  return newest;
}

/** The command as it was built, or from its sources where they are newer: that start takes twice as long. */
const program = ((): readonly string[] => {
  const builtAt = statSync(built, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return builtAt > newestSource() ? [built] : ['--import', 'tsx', source];
})();

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A `rollpool` command that runs. */
export interface RunningCommand {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Waits until the condition holds; fails with its output when the command ends before. */
  until<T>(condition: () => T | Promise<T>, what: string): Promise<NonNullable<T>>;
  /** Waits until its output matches, and gives the match. */
  says(pattern: RegExp, what: string): Promise<RegExpExecArray>;
}

/** Starts `rollpool ...` as a process of its own, with `env` as its whole environment. */
export function startCommand(args: readonly string[], env: Readonly<Record<string, string>>): RunningCommand {
  const child = spawn(process.execPath, [...program, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  let end: Ended | undefined;
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      end = { code, signal, stdout, stderr };
      resolve(end);
    });
  });
  const untilThen: RunningCommand['until'] = (condition, what) =>
    until(
      async () => {
        const value = await condition();
        if (!value && end !== undefined) {
          throw new Error(`rollpool ${args.join(' ')} ended before ${what}: ${JSON.stringify(end, null, 1)}`);
        }
        return value;
      },
      what,
      60_000,
    );
  return {
    pid: child.pid!,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    kill: (signal) => void child.kill(signal),
    until: untilThen,
    says: (pattern, what) => untilThen(() => pattern.exec(stdout) ?? pattern.exec(stderr), what),
  };
}
