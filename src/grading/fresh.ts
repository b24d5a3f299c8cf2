import { EpisodeError, type ClaudeCodeTask } from '../contracts/index.ts';
import type { CollectBounds, CollectedFile, Sandbox } from '../sandbox/sandbox.ts';
import { GradeError } from './grade-error.ts';
import type { GradeContext } from './grader.ts';
import { restoreLeadingFiles, type LeadingFiles, type Restored } from './leading-files.ts';
import { lookForLeadingFiles } from './look.ts';
import { nothingRestored } from './run-verifier.ts';
import { withTimeLimit } from './time-limit.ts';

/** Bounds of what is taken over. A worker holds it in memory once, for each episode it grades at the time. */
export const artifactBounds: CollectBounds = {
  max_bytes: 64 * 2 ** 20,
  max_files: 10_000,
  timeout_ms: 120_000,
};
const endMs = 60_000;

/**
 * Ends a sandbox that is not used any more, and waits until it is confirmed gone, within bounds: what does not end is left
 * to its episode and the reaper.
 */
export async function endSandbox(
  sandbox: Sandbox,
  { signal, log }: Pick<GradeContext, 'signal' | 'log'>,
): Promise<void> {
  try {
    await withTimeLimit(async () => sandbox[Symbol.asyncDispose](), endMs, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ err: error, sandbox: sandbox.id }, 'a sandbox did not end before grading went on in another');
  }
}

/** Makes another sandbox of the task, where the episode can. */
export async function makeFresh(context: GradeContext): Promise<Sandbox> {
  if (context.freshSandbox === undefined)
    throw new Error('grading needs a fresh sandbox and cannot make one');
  return context.freshSandbox();
}

async function collect(
  sandbox: Sandbox,
  artifacts: readonly string[],
): Promise<readonly CollectedFile[] | EpisodeError> {
  try {
    return await sandbox.collect(artifacts, artifactBounds);
  } catch (error) {
    if (error instanceof EpisodeError && error.failure.code === 'artifacts_too_large') return error;
    throw error;
  }
}

/** The files as an upload takes them. Names that no task would use are left out: not every provider can write them. */
function uploadable(files: readonly CollectedFile[], executable: boolean): Record<string, Uint8Array> {
  return Object.fromEntries(
    files
      .filter((file) => file.executable === executable && !/[\x00-\x1f\x7f]/.test(file.path))
      .map(({ path, bytes }) => [path, bytes]),
  );
}

export interface Moved {
  readonly sandbox: Sandbox;
  readonly restored: Restored;
  readonly metrics: Readonly<Record<string, number | boolean>>;
  /** Why no verifier is run: what the agent left is more than can be taken over, or than can be looked through. */
  readonly spoiled: 'artifacts_too_large' | 'settings_unreadable' | null;
}

/**
 * What is to be done about what leads the verifier. Where that could be looked at before the agent and cannot now, the agent
 * made more of it than anybody reads, and nothing that it wants read that way counts.
 */
export function settleLeading(
  task: ClaudeCodeTask,
  before: LeadingFiles | null,
  now: LeadingFiles | null,
): Pick<Moved, 'restored' | 'spoiled'> {
  if (before === null) return { restored: nothingRestored, spoiled: null };
  if (now === null) return { restored: nothingRestored, spoiled: 'settings_unreadable' };
  return { restored: restoreLeadingFiles(before, now, sparedPaths(task)), spoiled: null };
}

/**
 * Takes the named artifacts out of the agent's sandbox, whose agent is dead, ends it, and lays them over the files of a
 * fresh one. What is past the bounds is the agent's doing, unless the task's own files are past them as well (GradeError,
 * class task, `artifacts_too_large`).
 */
export async function moveToFresh(
  context: GradeContext,
  task: ClaudeCodeTask,
  sandbox: Sandbox,
): Promise<Moved> {
  const { verify } = task;
  const artifacts = verify.artifacts ?? [];
  const files = await collect(sandbox, artifacts);
  await endSandbox(sandbox, context);
  const fresh = await makeFresh(context);
  const metrics = { fresh_sandbox: true };
  if (files instanceof EpisodeError) {
    if ((await collect(fresh, artifacts)) instanceof EpisodeError) throw new GradeError(files.failure);
    return { sandbox: fresh, restored: nothingRestored, metrics, spoiled: 'artifacts_too_large' };
  }
  const before = await lookForLeadingFiles(fresh, verify, context.signal);
  const plain = uploadable(files, false);
  const programs = uploadable(files, true);
  if (Object.keys(plain).length > 0) await fresh.upload(plain);
  if (Object.keys(programs).length > 0) await fresh.upload(programs, { mode: 0o755 });
  const now = before === null ? null : await lookForLeadingFiles(fresh, verify, context.signal);
  const settled = settleLeading(task, before, now);
  const taken = Object.keys(plain).length + Object.keys(programs).length;
  return { sandbox: fresh, ...settled, metrics: { ...metrics, artifact_files: taken } };
}

/** Files that may lead the verifier whoever wrote them: what it brings itself, and what the task names as the agent's. */
function sparedPaths({ verify }: ClaudeCodeTask): ReadonlySet<string> {
  return new Set([
    ...(verify.dir === undefined ? Object.keys(verify.files) : []),
    ...(verify.artifacts ?? []),
  ]);
}
