import type { EpisodeJob, Lane, ResultSummary, SamplingOverrides, Limits, Task } from '../contracts/index.ts';

/** What the queue gives an episode to run. */
export interface EpisodeAttempt {
  readonly job: EpisodeJob;
  readonly task: Task;
  /** 1-based, durable: counts starts of this episode on all machines. */
  readonly attempt: number;
  /** Fresh for each attempt; names its bearer, socket, sandbox and payload. */
  readonly nonce: string;
  readonly worker: string;
  /** The lane its job came from. */
  readonly lane: Lane;
  /** Epoch milliseconds at which the job was enqueued. */
  readonly queued_at: number;
  /** The run's own settings (sampling and limits apply below the job's). */
  readonly run: { readonly sampling: SamplingOverrides; readonly limits: Limits };
  /** Aborts on cancel, lost lock, twin, hand-off and shutdown; the reason is an AbortCause. */
  readonly signal: AbortSignal;
}

/** Why an attempt is ended from outside. */
export class AbortCause extends Error {
  readonly kind: 'cancelled' | 'expired' | 'stale' | 'lock_lost' | 'twin' | 'handoff' | 'shutdown';
  constructor(kind: AbortCause['kind'], message: string = kind) {
    super(message);
    this.name = 'AbortCause';
    this.kind = kind;
  }
}

/**
 * What an attempt yields. A summary whose `failure.retryable` is true is retried below the cap and published at the
 * cap. `payload` is the encoded sequences and trace of this same attempt; null when there are none.
 */
export interface EpisodeOutput {
  readonly summary: ResultSummary;
  readonly payload: Uint8Array | null;
}

/**
 * Runs one attempt. Everything it started is stopped when it settles, also when the signal aborted. Rejects with the
 * signal's reason when ended from outside (nothing is published then, except for `cancelled`, `expired` and `stale`,
 * for which the queue publishes a null result); any other rejection counts as a retryable infra failure.
 */
export type EpisodeProcessor = (attempt: EpisodeAttempt) => Promise<EpisodeOutput>;
