import { FleetApiError } from './api-error.ts';
import { pause } from './pause.ts';

export interface RetryPolicy {
  /** Tries in all; 1: none is repeated. */
  readonly attempts: number;
  /** Milliseconds before the second try, doubling from there. */
  readonly base_ms: number;
  /** Longest of these pauses. */
  readonly longest_ms: number;
  /** Milliseconds for all tries and pauses together. */
  readonly total_ms: number;
  /** An answer 404 may be too early to be true, as right after a creation. Default: false. */
  readonly retryNotFound?: boolean;
}

function mayRepeat(error: FleetApiError, policy: RetryPolicy): boolean {
  return error.transient || (policy.retryNotFound === true && error.kind === 'not_found');
}

/**
 * Tries again what is transient, with pauses that double and are jittered down by up to half, never shorter than what
 * the server asked for. Gives up with the last error when no try is left or the next one would come too late; rejects
 * with the signal's reason when that fires. (A retry library would know nothing of Retry-After or of the deadline.)
 */
export async function withRetries<T>(
  run: (left_ms: number) => Promise<T>,
  policy: RetryPolicy,
  signal?: AbortSignal,
  random: () => number = Math.random,
): Promise<T> {
  const end = performance.now() + policy.total_ms;
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    try {
      return await run(Math.max(1, end - performance.now()));
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof FleetApiError) || !mayRepeat(error, policy) || attempt >= policy.attempts)
        throw error;
      const own = Math.min(policy.longest_ms, policy.base_ms * 2 ** (attempt - 1)) * (0.5 + random() / 2);
      const wait = Math.max(own, error.retry_after_ms ?? 0);
      if (performance.now() + wait >= end) throw error;
      await pause(wait, signal);
    }
  }
}
