/** One creation that was let through; exactly one of its methods is called, once. */
export interface CreationTicket {
  /** The provider made it. */
  passed(): Promise<void>;
  /**
   * The provider has no place, or was asked too often: nobody tries again before `retry_after_ms` (null: the gate's own
   * growing pause), and then one at a time until one has passed.
   */
  refused(retry_after_ms: number | null): Promise<void>;
  /** It ended in another way. */
  left(): Promise<void>;
}

/**
 * Lets creations through to a provider that limits them, for every worker of the pool together: a refusal that one
 * worker met holds all of them back. Waiting here is no failure and no attempt.
 */
export interface CreationGate {
  /** Resolves when a creation may be tried; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<CreationTicket>;
  /** One of ours was deleted: who waits for a place need not wait out the gate's own pause. Never rejects. */
  freed?(): Promise<void>;
}
