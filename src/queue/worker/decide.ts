import type { Failure } from '../../contracts/index.ts';
import { failureOf, type NullReason } from '../null-summary.ts';
import type { AbortCause, EpisodeOutput } from '../processor.ts';

/** How one attempt ended, and under which circumstances. */
export interface AttemptEnd {
  readonly outcome: { readonly output: EpisodeOutput } | { readonly error: unknown };
  /** Why it was aborted from outside; null: it was not. */
  readonly cause: AbortCause['kind'] | null;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly deadline_at: number | undefined;
  /** Milliseconds a further attempt would be delayed. */
  readonly retryDelayMs: number;
}

export type Decision =
  /** Publish what the attempt yielded. */
  | { readonly do: 'publish'; readonly output: EpisodeOutput }
  /** Publish a null result. */
  | { readonly do: 'publish_null'; readonly reason: NullReason }
  /** Try again later; the attempt stays counted. */
  | { readonly do: 'retry'; readonly failure: Failure }
  /** Put it back for another worker; the attempt is not counted. */
  | { readonly do: 'hand_off' }
  /** Leave it to whoever has it now. */
  | { readonly do: 'drop' };

/** What becomes of an episode after an attempt (design.md 4): pure, so that every combination can be tested. */
export function decide(end: AttemptEnd): Decision {
  const { cause } = end;
  if (cause === 'cancelled' || cause === 'expired' || cause === 'stale') {
    return { do: 'publish_null', reason: { ended: cause } };
  }
  const output = 'output' in end.outcome ? end.outcome.output : null;
  const failure = 'output' in end.outcome ? end.outcome.output.summary.failure : failureOf(end.outcome.error);
  // Work that came to its end is never thrown away for having been interrupted: the first result wins.
  if (output !== null && (failure === null || !failure.retryable)) return { do: 'publish', output };
  if (cause === 'handoff' || cause === 'shutdown') return { do: 'hand_off' };
  if (cause !== null) return { do: 'drop' };
  if (failure === null) throw new Error('an attempt ended with neither output nor failure');
  const again =
    failure.retryable &&
    end.attempt < end.maxAttempts &&
    (end.deadline_at === undefined || end.now + end.retryDelayMs < end.deadline_at);
  if (again) return { do: 'retry', failure };
  return output === null ? { do: 'publish_null', reason: { failure } } : { do: 'publish', output };
}

/** Doubling delay before the attempt after `attempt`, with a fifth of jitter so that a fleet does not move in step. */
export function retryDelay(attempt: number, baseMs: number, maxMs: number, random = Math.random()): number {
  return Math.round(Math.min(maxMs, baseMs * 2 ** (attempt - 1)) * (0.9 + 0.2 * random));
}
