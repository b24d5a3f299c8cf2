import {
  EpisodeError,
  resolveSampling,
  resultSchemaName,
  type EpisodeJob,
  type Failure,
  type ResultSummary,
  type SamplingOverrides,
  type StopReason,
  type Task,
} from '../contracts/index.ts';

/** Why there is nothing but a null result: ended from outside, or failed. */
export type NullReason =
  { readonly ended: 'cancelled' | 'expired' | 'stale' } | { readonly failure: Failure };

const stopReasons: Readonly<Record<Failure['class'], StopReason>> = {
  infra: 'infra',
  task: 'task_error',
  agent: 'agent_error',
};

/** The result of an episode that has no reward: it never ran, was ended from outside, or failed at the cap. */
export function nullSummary(given: {
  readonly job: EpisodeJob;
  /** null: its body could not be read. */
  readonly task: Task | null;
  readonly attempt: number;
  readonly runSampling: SamplingOverrides;
  readonly worker: string;
  readonly queued_at: number;
  readonly started_at: number;
  readonly now: number;
  readonly reason: NullReason;
}): ResultSummary {
  const { job, task, reason } = given;
  const failure = 'failure' in reason ? reason.failure : null;
  return {
    schema: resultSchemaName,
    run_id: job.run_id,
    batch_id: job.batch_id,
    episode_id: job.episode_id,
    attempt: given.attempt,
    task_key: job.task_key,
    kind: task?.kind ?? 'claude_code',
    metadata: task?.metadata ?? {},
    group_id: job.group_id,
    group_size: job.group_size,
    sample_index: job.sample_index,
    status: failure === null ? 'cancelled' : 'failed',
    stop_reason: 'ended' in reason ? reason.ended : stopReasons[reason.failure.class],
    reward: null,
    rewards: {},
    metrics: {},
    failure,
    policy: {
      model: '',
      version_start: null,
      version_end: null,
      version_source: 'none',
      logprobs_mode: 'unknown',
    },
    sampling: resolveSampling(given.runSampling, job.sampling),
    usage: { calls: 0, prompt_tokens: 0, completion_tokens: 0, discarded_tokens: 0 },
    timing: {
      queued_s: Math.max(0, given.started_at - given.queued_at) / 1000,
      boot_s: 0,
      setup_s: 0,
      agent_s: 0,
      model_s: 0,
      hold_s: 0,
      grade_s: 0,
      total_s: Math.max(0, given.now - given.started_at) / 1000,
    },
    verify: [],
    grades: { exact: 0, forked: 0, untrainable: 0 },
    worker: given.worker,
    sandbox: null,
  };
}

/** The failure an error stands for: its own when it crossed rooms as an EpisodeError, else infra, retryable. */
export function failureOf(error: unknown): Failure {
  if (error instanceof EpisodeError) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { class: 'infra', phase: 'queue', code: 'processor_failed', message, retryable: true };
}
