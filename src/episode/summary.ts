import {
  resultSchemaName,
  type CallRecord,
  type EffectiveLimits,
  type Failure,
  type RegradeSource,
  type ResultSummary,
  type Sampling,
  type Sequence,
  type Status,
  type StopReason,
} from '../contracts/index.ts';
import type { SessionStats } from '../gateway/session.ts';
import type { Grade } from '../grading/grader.ts';
import type { EpisodeAttempt } from '../queue/processor.ts';
import { forksOf } from '../trajectory/index.ts';
import { slowPolicy } from './outcome.ts';
import type { KeptState } from './keep-state.ts';
import type { Place } from './place.ts';
import type { PolicyIdentity } from './ports.ts';

export interface PhaseTimes {
  boot_s: number;
  setup_s: number;
  agent_s: number;
  grade_s: number;
}

export interface SummaryInput {
  readonly attempt: EpisodeAttempt;
  readonly startedAt: number;
  readonly status: Status;
  readonly stop_reason: StopReason;
  readonly failure: Failure | null;
  readonly grade: Pick<Grade, 'reward' | 'rewards'> | null;
  readonly verify: ResultSummary['verify'];
  readonly metrics: Readonly<Record<string, number | boolean | string>>;
  readonly policy: PolicyIdentity;
  readonly sampling: Sampling;
  readonly limits: EffectiveLimits;
  readonly stats: SessionStats | null;
  readonly calls: readonly CallRecord[];
  readonly sequences: readonly Sequence[];
  readonly usage: ResultSummary['usage'];
  readonly times: PhaseTimes;
  readonly place: Pick<Place, 'provider' | 'id'> | null;
  readonly snapshot: KeptState | null;
  /** Of a result that graded a kept state again. */
  readonly regrade_of?: RegradeSource;
}

/** The usage of an episode without a call. */
export const noUsage: ResultSummary['usage'] = {
  calls: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  discarded_tokens: 0,
};

/** Seconds, to the millisecond. */
function seconds(value: number): number {
  return Math.round(Math.max(0, value) * 1000) / 1000;
}

/** The lowest and highest policy version of an episode's calls; null where none is known. */
function versions(calls: readonly CallRecord[]): {
  version_start: number | null;
  version_end: number | null;
} {
  const known = calls
    .flatMap((call) => [call.version_start, call.version_end])
    .filter((version): version is number => version !== null);
  if (known.length === 0) return { version_start: null, version_end: null };
  return { version_start: Math.min(...known), version_end: Math.max(...known) };
}

/** Puts a result together: everything of it except sequences and trace. */
export function summarise(input: SummaryInput): ResultSummary {
  const { attempt, stats, times, grade } = input;
  const { job, task } = attempt;
  const grades = { exact: 0, forked: 0, untrainable: 0 };
  for (const sequence of input.sequences) grades[sequence.certificate.grade] += 1;
  const { followed, forked } = forksOf(input.sequences);
  const mainTurns = stats?.main_turns ?? 0;
  const known = versions(input.calls);
  return {
    schema: resultSchemaName,
    run_id: job.run_id,
    batch_id: job.batch_id,
    episode_id: job.episode_id,
    attempt: attempt.attempt,
    task_key: task.task_key,
    kind: task.kind,
    metadata: task.metadata,
    group_id: job.group_id,
    group_size: job.group_size,
    sample_index: job.sample_index,
    status: input.status,
    stop_reason: input.stop_reason,
    reward: grade?.reward ?? null,
    rewards: { ...grade?.rewards },
    metrics: {
      turns: mainTurns,
      ...(followed > 0 ? { followed_calls: followed, forked_calls: forked } : {}),
      ...(stats !== null && stats.self_calls > 0 ? { self_calls: stats.self_calls } : {}),
      ...(stats !== null && slowPolicy(stats, input.limits.agent_seconds) ? { slow_policy: true } : {}),
      ...input.metrics,
    },
    failure: input.failure,
    policy: {
      model: input.policy.model,
      ...known,
      // Where nobody pushed a version, one that is known is the engine's own word.
      version_source:
        input.policy.version_source === 'none' && known.version_start !== null
          ? 'engine'
          : input.policy.version_source,
      logprobs_mode: input.policy.logprobs_mode,
    },
    sampling: input.sampling,
    usage: input.usage,
    timing: {
      queued_s: seconds((input.startedAt - attempt.queued_at) / 1000),
      boot_s: seconds(times.boot_s),
      setup_s: seconds(times.setup_s),
      agent_s: seconds(times.agent_s),
      model_s: seconds((stats?.model_ms ?? 0) / 1000),
      hold_s: seconds((stats?.hold_ms ?? 0) / 1000),
      grade_s: seconds(times.grade_s),
      total_s: seconds((Date.now() - input.startedAt) / 1000),
    },
    verify: [...input.verify],
    grades,
    worker: attempt.worker,
    sandbox:
      input.place === null
        ? null
        : {
            provider: input.place.provider,
            id: input.place.id,
            ...(input.snapshot === null ? {} : { snapshot: input.snapshot }),
          },
    ...(input.regrade_of === undefined ? {} : { regrade_of: input.regrade_of }),
  };
}
