import { EpisodeError, type EffectiveLimits, type Owner, type Task } from '../contracts/index.ts';
import type { EpisodeAttempt } from '../queue/processor.ts';
import type { Environment } from '../fleet/environment.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { DeadlineExpired, phaseDeadline } from './hold-clock.ts';
import type { LaneParts } from './ports.ts';

/** Seconds a sandbox or an environment may outlive the sum of its phases before anybody may reap it. */
export const ttlMarginSeconds = 300;

export function ttlSeconds(limits: EffectiveLimits): number {
  return (
    limits.boot_seconds +
    limits.setup_seconds +
    limits.agent_seconds +
    limits.hold_seconds +
    limits.grade_total_seconds +
    limits.publish_seconds +
    ttlMarginSeconds
  );
}

export function ownerOf(attempt: EpisodeAttempt, pool: string): Owner {
  const { run_id, episode_id } = attempt.job;
  return {
    pool,
    worker: attempt.worker,
    run_id,
    episode_id,
    attempt: attempt.attempt,
    nonce: attempt.nonce,
  };
}

/** Creates the environment of an attempt; null where the lane needs none. How long it may take is its provider's to keep. */
export async function enterEnvironment(
  attempt: EpisodeAttempt,
  parts: LaneParts,
  limits: EffectiveLimits,
  pool: string,
): Promise<Environment | null> {
  const { task } = attempt;
  if (parts.environments === undefined || task.kind !== 'fleet') return null;
  return parts.environments.create({
    task,
    owner: ownerOf(attempt, pool),
    boot_seconds: limits.boot_seconds,
    wait_seconds: limits.hold_seconds,
    ttl_seconds: ttlSeconds(limits),
    signal: attempt.signal,
  });
}

/** Starts something that has `seconds`; rejects (infra) when they are over. */
export async function bootWithin<T>(
  seconds: number,
  signal: AbortSignal,
  start: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  using deadline = phaseDeadline('boot', seconds, signal);
  try {
    return await start(deadline.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.signal.aborted && deadline.signal.reason instanceof DeadlineExpired) {
      throw new EpisodeError(
        { class: 'infra', phase: 'boot', code: 'boot_timeout', message: deadline.signal.reason.message },
        { cause: error },
      );
    }
    throw error;
  }
}

/**
 * Creates the sandbox of an attempt within `boot_seconds`; null where the lane needs none. One that starts from a kept
 * state runs no agent and needs no gateway.
 */
export async function boot(
  attempt: EpisodeAttempt,
  parts: Pick<LaneParts, 'provider' | 'cli_binary'> & Partial<Pick<LaneParts, 'agent'>>,
  limits: EffectiveLimits,
  pool: string,
  gatewayDir: string | null,
  snapshot: string | null = null,
): Promise<Sandbox | null> {
  const { task } = attempt;
  if (parts.provider === null || task.kind !== 'claude_code') return null;
  if (gatewayDir === null && snapshot === null)
    throw new Error('a sandboxed agent needs a gateway session with a Unix socket');
  const { provider, cli_binary } = parts;
  const request = {
    spec: task.sandbox,
    owner: ownerOf(attempt, pool),
    gateway_dir: gatewayDir,
    cli_binary,
    ttl_seconds: ttlSeconds(limits),
    snapshot,
    boot_seconds: limits.boot_seconds,
    wait_seconds: limits.hold_seconds,
    // A kept state is graded and nothing acts in it.
    ahead: snapshot === null ? (parts.agent?.ahead?.(task, limits) ?? null) : null,
  };
  // Waiting for a free place is no boot: how long both take is such a provider's to keep.
  if (provider.remote === true) return provider.create({ ...request, signal: attempt.signal });
  return bootWithin(limits.boot_seconds, attempt.signal, (signal) => provider.create({ ...request, signal }));
}

/** Puts the task's files in place and runs its set-up commands in order, as root, all within `setup_seconds`. */
export async function setUp(
  sandbox: Sandbox,
  task: Extract<Task, { kind: 'claude_code' }>,
  limits: EffectiveLimits,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = performance.now();
  if (Object.keys(task.files).length > 0) await sandbox.upload(task.files, { owner: 'agent' });
  if (task.setup.length === 0) return;
  for (const [index, command] of task.setup.entries()) {
    signal.throwIfAborted();
    const left = limits.setup_seconds * 1000 - (performance.now() - startedAt);
    const failed = (why: string): EpisodeError =>
      new EpisodeError({
        class: 'task',
        phase: 'setup',
        code: 'setup_failed',
        message: `setup[${index}] ${why}`,
      });
    if (left <= 0) throw failed(`was not reached within ${limits.setup_seconds} s`);
    const result = await sandbox.exec(command, { user: 'root', timeout_ms: left, signal });
    if (result.timed_out) throw failed(`took longer than ${limits.setup_seconds} s in all`);
    if (result.exit_code !== 0) {
      signal.throwIfAborted();
      const state = await sandbox.state();
      if (state === 'disk_full') throw failed('wrote more than the sandbox may hold (sandbox.disk_mb)');
      if (state === 'gone') {
        throw new EpisodeError({
          class: 'infra',
          phase: 'setup',
          code: 'sandbox_gone',
          message: 'the sandbox vanished during set-up',
        });
      }
      throw failed(
        `exited with ${result.exit_code}: ${(result.stderr || result.stdout).trim().slice(-1000)}`,
      );
    }
  }
  // What root made is the agent's to change.
  await sandbox.giveWorkdir('agent');
}
