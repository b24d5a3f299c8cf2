import { posix } from 'node:path';
import type { Verify } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { GradeError } from './grade-error.ts';
import { parseRewardRule } from './reward.ts';

/**
 * Makes room for the verifier in a directory whose every byte the agent may have chosen, following none of its symbolic
 * links. Argument: the working directory. Standard input: NUL-terminated paths below it that must not exist afterwards.
 * On the way to each of them whatever is no directory is removed, so that an upload cannot be led elsewhere. Byte code
 * caches go too: Python takes an unchecked one for the verifier's own modules. Prints the first path it could not clear,
 * or, with a second argument of "home", a new home for the grader.
 */
const clearScript = `
workdir=$1
blocked() { printf '%s' "$1"; exit 1; }
if [ -L "$workdir" ] || { [ -e "$workdir" ] && [ ! -d "$workdir" ]; }; then rm -f -- "$workdir"; fi
mkdir -p -- "$workdir" && [ ! -L "$workdir" ] || blocked "$workdir"
chmod -R u+rwX -- "$workdir"
find "$workdir" -xdev -depth -name __pycache__ -exec rm -rf -- {} +
while IFS= read -r -d '' path; do
  rest=$path
  at=$workdir
  while :; do
    name=\${rest%%/*}
    at=$at/$name
    if [ "$rest" = "$name" ]; then
      rm -rf -- "$at"
      if [ -e "$at" ] || [ -L "$at" ]; then blocked "$at"; fi
      break
    fi
    rest=\${rest#*/}
    if [ -L "$at" ] || { [ -e "$at" ] && [ ! -d "$at" ]; }; then rm -f -- "$at" || blocked "$at"; fi
    [ -d "$at" ] || break
  done
done
if [ "$2" = home ]; then mktemp -d; fi
`;

/**
 * A bash whose stdin is a socket takes itself for a remote shell and reads ~/.bashrc, which the agent may have written;
 * one that is not the outermost does not.
 */
export const innerShell = { SHLVL: '1' };

/** Paths that must be ours alone: the verifier's files, and the file it is to write the reward to. */
export function reservedPaths(verify: Pick<Verify, 'files' | 'reward'>): string[] {
  const rule = parseRewardRule(verify.reward);
  const paths = Object.keys(verify.files);
  if ('path' in rule) paths.push(rule.path);
  return [...new Set(paths.map((path) => posix.normalize(path).replace(/\/+$/, '')))];
}

/**
 * Clears the reserved paths, brings in the verifier's files and hands the working directory to the grader. The agent's
 * processes must be dead. Gives what of the environment the sandbox does not set: a HOME, where users are not told apart.
 * Rejects with GradeError `prepare_failed` (infra) when that cannot be done in `timeoutMs`.
 */
export async function prepareWorkdir(
  sandbox: Sandbox,
  verify: Verify,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const ownHome = sandbox.isolation === 'process';
  const paths = reservedPaths(verify);
  const cleared = await sandbox.exec(
    ['bash', '--noprofile', '--norc', '-c', clearScript, 'bash', sandbox.workdir, ownHome ? 'home' : ''],
    {
      user: 'root',
      cwd: '/',
      env: innerShell,
      stdin: paths.map((path) => `${path}\0`).join(''),
      timeout_ms: timeoutMs,
      signal,
    },
  );
  if (cleared.exit_code !== 0) {
    signal.throwIfAborted();
    const why = cleared.timed_out
      ? `took longer than ${timeoutMs / 1000} s`
      : `could not clear ${cleared.stdout}`;
    throw new GradeError({
      class: 'infra',
      code: 'prepare_failed',
      message: `making room for the verifier ${why}: ${cleared.stderr.trim().slice(-500)}`,
    });
  }
  if (Object.keys(verify.files).length > 0) await sandbox.upload(verify.files, { owner: 'grader' });
  await sandbox.giveWorkdir('grader');
  return ownHome ? { HOME: cleared.stdout.trim() } : {};
}
