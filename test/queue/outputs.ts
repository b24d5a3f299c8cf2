import type { Lane, ResultSummary } from '../../src/contracts/index.ts';
import { nullSummary } from '../../src/queue/null-summary.ts';
import type { EpisodeAttempt, EpisodeOutput } from '../../src/queue/processor.ts';

export const lane: Lane = 'claude_code-local';

/** A completed result of an attempt. */
export function summaryOf(attempt: EpisodeAttempt, reward: number | null = 1): ResultSummary {
  const nothing = nullSummary({
    job: attempt.job,
    task: attempt.task,
    attempt: attempt.attempt,
    runSampling: attempt.run.sampling,
    worker: attempt.worker,
    queued_at: attempt.queued_at,
    started_at: attempt.queued_at,
    now: Date.now(),
    reason: { ended: 'cancelled' },
  });
  return {
    ...nothing,
    status: 'completed',
    stop_reason: 'agent_done',
    reward,
    usage: { ...nothing.usage, calls: 1, completion_tokens: 10 },
  };
}

/** The payload names its own attempt, so that a test can see whose it is. */
export function outputOf(attempt: EpisodeAttempt, reward: number | null = 1): EpisodeOutput {
  return { summary: summaryOf(attempt, reward), payload: Buffer.from(`payload of ${attempt.nonce}`) };
}

/** What an attempt yields whose infrastructure failed. */
export function infraFailureOf(attempt: EpisodeAttempt): EpisodeOutput {
  return {
    summary: {
      ...summaryOf(attempt, null),
      status: 'failed',
      stop_reason: 'infra',
      failure: {
        class: 'infra',
        phase: 'boot',
        code: 'sandbox_gone',
        message: 'the sandbox is gone',
        retryable: true,
      },
    },
    payload: null,
  };
}
