import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Verify } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { GradeError } from './grade-error.ts';
import { harborLogs } from './harbor-reward.ts';
import type { Restored } from './leading-files.ts';
import { parseRewardRule } from './reward.ts';

const makeRoom = readFileSync(new URL('./make-room.sh', import.meta.url), 'utf8');
const restoreMs = 60_000;
/** Paths and processes: what is past it are processes that get no mercy after the commands. */
const maxSaid = 4 * 2 ** 20;

/**
 * A bash whose stdin is a socket takes itself for a remote shell and reads ~/.bashrc, which the agent may have written;
 * one that is not the outermost does not.
 */
export const innerShell = { SHLVL: '1' };

type Placed = Pick<Verify, 'files' | 'reward'> & Pick<Partial<Verify>, 'dir'>;

/** Paths below the working directory that must be ours alone: the verifier's files, and the file it is to write the reward to. */
export function reservedPaths(verify: Placed): string[] {
  const rule = parseRewardRule(verify.reward);
  const paths = verify.dir === undefined ? Object.keys(verify.files) : [];
  if ('path' in rule) paths.push(rule.path);
  return [...new Set(paths.map((path) => posix.normalize(path).replace(/\/+$/, '')))];
}

/** Absolute directories that are the verifier's alone. The first is that of its files, where it has one of its own. */
function ownDirectories(verify: Placed): string[] {
  const directories = verify.dir === undefined ? [] : [verify.dir];
  return verify.reward === 'harbor' ? [...directories, harborLogs] : directories;
}

/** The place a verifier runs in. */
export interface Room {
  /** What of the environment the sandbox does not set: a HOME, where users are not told apart. */
  readonly env: Readonly<Record<string, string>>;
  /** `PID:START` of what ran before the commands. */
  readonly processes: readonly string[];
  /** Places of the verifier where something stood already. */
  readonly taken: readonly string[];
  /** Path of a looked-at file -> its SHA-256; null: it is no regular file any more. */
  readonly hashes: ReadonlyMap<string, string | null>;
  /** Bytes in large files that are newer than the agent; null: not looked for. */
  readonly grown: number | null;
}

export interface PrepareOptions {
  readonly verify: Verify;
  /** What is to be taken out and put back meanwhile. */
  readonly restored: Restored;
  /** Paths below the working directory to take hashes of. */
  readonly hashed: readonly string[];
  /** Epoch milliseconds; null: no agent did. */
  readonly agentStartedAt: number | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

function zeroTerminated(items: readonly string[]): string {
  return items.map((item) => `${item}\0`).join('');
}

function hashesOf(said: string): Map<string, string | null> {
  const lines = read(said, 'hash').map((line): [string, string | null] => {
    const at = line.indexOf(' ');
    const sum = line.slice(0, at);
    return [line.slice(at + 1), sum === '-' ? null : sum];
  });
  return new Map(lines);
}

function read(said: string, word: string): string[] {
  return said
    .split('\0')
    .filter((line) => line.startsWith(`${word} `))
    .map((line) => line.slice(word.length + 1));
}

function unprepared(why: string): GradeError {
  return new GradeError({
    class: 'infra',
    code: 'prepare_failed',
    message: `making room for the verifier: ${why}`,
  });
}

/** Refuses what a sandbox without a root directory of its own cannot give: anything there would be this machine's. */
function checkPlaces(sandbox: Sandbox, verify: Verify): void {
  const [directory] = ownDirectories(verify);
  if (sandbox.isolation !== 'process' || directory === undefined) return;
  const field = verify.dir === undefined ? 'verify.reward: harbor' : 'verify.dir';
  throw new GradeError({
    class: 'task',
    code: 'verifier_unsupported',
    message: `${field} needs a sandbox with a root directory of its own; a ${sandbox.provider} one has no ${directory}`,
  });
}

/** Takes out what leads the verifier and is the agent's, and puts back what was there. */
async function restore(sandbox: Sandbox, restored: Restored, signal: AbortSignal): Promise<void> {
  if (restored.remove.length > 0) {
    const removed = await sandbox.exec(['xargs', '-0', 'rm', '-rf', '--'], {
      user: 'root',
      env: innerShell,
      stdin: zeroTerminated(restored.remove),
      timeout_ms: restoreMs,
      signal,
    });
    if (removed.exit_code !== 0)
      throw unprepared(`taking out settings: ${removed.stderr.trim().slice(-500)}`);
  }
  if (Object.keys(restored.write).length > 0) await sandbox.upload(restored.write);
}

/**
 * Clears the verifier's places, brings in its files and hands the working directory to whoever verifies. The agent's
 * processes must be dead. Rejects with GradeError: `prepare_failed` (infra) when that cannot be done in `timeoutMs`,
 * `verifier_unsupported` (task) where the sandbox has no such places.
 */
export async function prepareWorkdir(sandbox: Sandbox, options: PrepareOptions): Promise<Room> {
  const { verify, restored, timeoutMs, signal } = options;
  checkPlaces(sandbox, verify);
  const ownHome = sandbox.isolation === 'process';
  const user = verify.user ?? 'grader';
  // What the agent may still own runs no more, so a directory that all may write is the verifier's.
  const mode = user === 'root' ? '0755' : '0777';
  const since = options.agentStartedAt === null ? '' : String(Math.floor(options.agentStartedAt / 1000));
  const places = [
    sandbox.workdir,
    ownHome ? 'home' : '',
    since,
    sandbox.agent_home,
    mode,
    ...ownDirectories(verify),
  ];
  const cleared = await sandbox.exec(['bash', '--noprofile', '--norc', '-c', makeRoom, 'bash', ...places], {
    user: 'root',
    cwd: '/',
    env: innerShell,
    stdin: zeroTerminated([...options.hashed, '', ...reservedPaths(verify)]),
    timeout_ms: timeoutMs,
    max_output_bytes: maxSaid,
    signal,
  });
  if (cleared.exit_code !== 0) {
    signal.throwIfAborted();
    const why = cleared.timed_out
      ? `took longer than ${timeoutMs / 1000} s`
      : `could not clear ${read(cleared.stdout, 'blocked').join()}`;
    throw unprepared(`${why}: ${cleared.stderr.trim().slice(-500)}`);
  }
  await restore(sandbox, restored, signal);
  const [directory] = read(cleared.stdout, 'dir');
  if (Object.keys(verify.files).length > 0) {
    await sandbox.upload(verify.files, {
      owner: user,
      ...(verify.dir === undefined || directory === undefined ? {} : { base: directory }),
    });
  }
  await sandbox.giveWorkdir(user);
  const [home] = read(cleared.stdout, 'home');
  return {
    env: home === undefined ? {} : { HOME: home },
    processes: read(cleared.stdout, 'process'),
    taken: read(cleared.stdout, 'taken'),
    hashes: hashesOf(cleared.stdout),
    grown: options.agentStartedAt === null ? null : Number(read(cleared.stdout, 'grown')[0] ?? 0),
  };
}
