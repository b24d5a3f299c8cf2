import type { ReapFilter, SandboxOwner } from './sandbox.ts';

/** What is known of a sandbox by its labels alone. */
export interface Leftover {
  readonly owner: SandboxOwner;
  /** Epoch milliseconds after which anybody may remove it. */
  readonly expires_at: number;
}

const prefix = 'io.rollpool.';

/** The labels every sandbox carries, so that whoever finds it knows whose it is and when it may go. */
export function labelsOf(leftover: Leftover): Record<string, string> {
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
export function leftoverOf(labels: Readonly<Record<string, string>>): Leftover | null {
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

/**
 * Whether a leftover may be removed. `not_asked`: outside the filter's pool or run, so not even reported.
 * `extended`: its labels say it expired, but it is known to have been given more time.
 */
export function reapVerdict(
  leftover: Leftover,
  filter: ReapFilter,
  now: number,
  extended: boolean,
): { remove: boolean; why: string } | 'not_asked' {
  const { owner, expires_at } = leftover;
  if (filter.pool !== undefined && owner.pool !== filter.pool) return 'not_asked';
  if (filter.run_id !== undefined && owner.run_id !== filter.run_id) return 'not_asked';
  if (filter.all === true) return { remove: true, why: 'all were asked for' };
  if (filter.isDead(owner.worker)) return { remove: true, why: `its worker ${owner.worker} is dead` };
  if (now < expires_at) return { remove: false, why: `its worker ${owner.worker} is alive` };
  if (extended) return { remove: false, why: `its worker ${owner.worker} is alive and gave it more time` };
  return { remove: true, why: 'it expired' };
}
