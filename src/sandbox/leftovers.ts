import type { Leftover, Owner } from '../contracts/index.ts';

/** A sandbox by its labels. */
export interface LabelledSandbox extends Leftover {
  readonly owner: Owner;
}

const prefix = 'io.rollpool.';

/** The labels every sandbox carries, so that whoever finds it knows whose it is and when it may go. */
export function labelsOf(leftover: LabelledSandbox): Record<string, string> {
  const { owner } = leftover;
  return {
    [`${prefix}sandbox`]: '1',
    [`${prefix}pool`]: owner.pool,
    [`${prefix}worker`]: owner.worker,
    [`${prefix}run`]: owner.run_id,
    [`${prefix}episode`]: owner.episode_id,
    [`${prefix}attempt`]: String(owner.attempt),
    [`${prefix}nonce`]: owner.nonce,
    [`${prefix}expires`]: String(leftover.expires_at),
  };
}

/** The label that every sandbox of ours has and nothing else. */
export const sandboxLabel = `${prefix}sandbox=1`;

/** Reads labels back; null when they are not (all) ours, so that the thing is left alone. */
export function leftoverOf(labels: Readonly<Record<string, string>>): LabelledSandbox | null {
  if (labels[`${prefix}sandbox`] !== '1') return null;
  const [pool, worker, run_id, episode_id, attempt, nonce, expires] = [
    'pool',
    'worker',
    'run',
    'episode',
    'attempt',
    'nonce',
    'expires',
  ].map((name) => labels[`${prefix}${name}`]);
  const expires_at = Number(expires);
  if (
    pool === undefined ||
    worker === undefined ||
    run_id === undefined ||
    episode_id === undefined ||
    nonce === undefined ||
    !Number.isFinite(expires_at)
  ) {
    return null;
  }
  return { owner: { pool, worker, run_id, episode_id, attempt: Number(attempt), nonce }, expires_at };
}
