/** Whose something outside this process is: by its labels alone, whoever finds it knows what to do with it. */
export interface Owner {
  /** Pool (Redis prefix or embedded instance) the episode belongs to. */
  readonly pool: string;
  readonly worker: string;
  readonly run_id: string;
  readonly episode_id: string;
  readonly attempt: number;
  readonly nonce: string;
}

export interface ReapReport {
  /** Ids removed. */
  readonly removed: readonly string[];
  /** Ids of ours that are kept, and why. */
  readonly kept: readonly { readonly id: string; readonly why: string }[];
}

/** Which leftovers to remove. Nothing without our labels is ever touched. */
export interface ReapFilter {
  readonly pool?: string;
  readonly run_id?: string;
  /** True = its worker is dead, so it may go before it expires. */
  isDead(worker: string): boolean;
  /** Remove all of the pool, expired or not. Default: false. */
  readonly all?: boolean;
}

/** Who finds what attempts left behind with one provider, and removes it. */
export interface Reaper {
  readonly name: string;
  /** Pools of the same name with a Redis each may leave things there too. Default: false, it is this machine's. */
  readonly shared?: boolean;
  reap(filter: ReapFilter): Promise<ReapReport>;
}

/** What is known of something left behind by its labels alone. */
export interface Leftover {
  readonly owner: Pick<Owner, 'pool' | 'worker' | 'run_id'>;
  /** Epoch milliseconds after which anybody may remove it. */
  readonly expires_at: number;
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
