/**
 * What the gateway must know of the policy beyond its URL: which weights it has, and whether calls are to wait.
 * The pool's control channel implements it over Redis; tests and one-process use implement it in memory.
 */
export interface PolicyState {
  /** Version of the weights, as a trainer pushed it; null when nobody did. */
  version(replica: string): number | null;
  readonly source: 'pushed' | 'engine' | 'none';
  /** True while new calls are to be held. */
  paused(): boolean;
  /** Counts changes of this replica's version made without a pause: a call that sees it move has an uncertain version. */
  unpausedChanges(replica?: string): number;
  /** Counts pauses that asked for calls in flight to be ended; a call that sees it move is sampled anew. Default: none. */
  cuts?(): number;
  /** Resolves when the policy is not paused; rejects with the signal's reason. */
  resumed(signal: AbortSignal): Promise<void>;
}

/** A policy that is never paused and has no version. */
export const staticPolicyState: PolicyState = {
  version: () => null,
  source: 'none',
  paused: () => false,
  unpausedChanges: () => 0,
  resumed: async () => {},
};
