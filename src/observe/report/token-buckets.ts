import type { ResultSummary } from '../../contracts/index.ts';

/** Results whose attempt sampled fewer than `below` tokens and at least as many as the bucket before. */
export interface TokenBucket {
  /** Null: no upper end. */
  readonly below: number | null;
  readonly n: number;
  /** Needed more than one attempt. */
  readonly retried: number;
  /** Ended without a reward for a failure of ours or of a provider. */
  readonly infra: number;
}

const ends = [1_000, 4_000, 16_000, 64_000, null] as const;

/**
 * Retries and infra failures by sampled tokens: when only long episodes are retried or lost, training is biased towards
 * short ones, and this is where it shows (design: outcome table). The tokens are those of the last attempt.
 */
export function tokenBuckets(results: readonly ResultSummary[]): TokenBucket[] {
  let from = 0;
  return ends.map((below) => {
    const start = from;
    const within = results.filter(
      ({ usage }) => usage.completion_tokens >= start && usage.completion_tokens < (below ?? Infinity),
    );
    from = below ?? Infinity;
    return {
      below,
      n: within.length,
      retried: within.filter(({ attempt }) => attempt > 1).length,
      infra: within.filter(({ failure }) => failure?.class === 'infra').length,
    };
  });
}
