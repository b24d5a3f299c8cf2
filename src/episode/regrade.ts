import {
  EpisodeError,
  resolveLimits,
  type EffectiveLimits,
  type Failure,
  type Phase,
  type RegradeOrder,
  type ResultSummary,
} from '../contracts/index.ts';
import type { Grade, Grader } from '../grading/grader.ts';
import { GradeError } from '../grading/index.ts';
import type { Logger } from '../observe/index.ts';
import type { EpisodeAttempt, EpisodeProcessor } from '../queue/processor.ts';
import type { Sandbox, SandboxProvider } from '../sandbox/sandbox.ts';
import { failureOf, stopReasonOf, tearDown, timed } from './attempt-end.ts';
import { boot } from './boot.ts';
import { BootQueue } from './boot-queue.ts';
import { freshSandboxes } from './fresh-sandboxes.ts';
import { noUsage, summarise, type PhaseTimes } from './summary.ts';

export interface RegradePorts {
  /** What an episode grades again; null: nothing is known of it. */
  orderOf(run_id: string, episode_id: string): Promise<RegradeOrder | null>;
  /** Who made and kept the states. */
  readonly provider: SandboxProvider;
  readonly grader: Grader;
  /** Worker settings below the run's and the task's. */
  readonly limits: Partial<EffectiveLimits>;
  readonly pool: string;
  /** Default: 2 x cores. */
  readonly boot_concurrency?: number;
  readonly log: Logger;
}

/** What is known of an attempt while it runs. */
interface Progress {
  phase: Phase;
  failure: Failure | null;
  grade: Grade | null;
  verify: ResultSummary['verify'];
  sandbox: Sandbox | null;
  readonly times: PhaseTimes;
}

/**
 * Makes the processor that grades kept final states again: a sandbox from the kept state, the task's verifier as it is
 * now, and a result that names the old one. No agent runs and no model is called, so it yields no sequences. How the agent
 * had ended, its policy and its sampling are taken over.
 */
export function createRegradeProcessor(ports: RegradePorts): EpisodeProcessor {
  const boots = new BootQueue(ports.boot_concurrency);
  return async (attempt) => {
    const startedAt = Date.now();
    const { job, task } = attempt;
    const log = ports.log.child({ run: job.run_id, episode: job.episode_id, task: job.task_key });
    const limits = resolveLimits(ports.limits, attempt.run.limits, job.limits, task.limits);
    const order = await ports.orderOf(job.run_id, job.episode_id);
    if (order === null) throw new Error(`nothing says which kept state ${job.episode_id} is to grade again`);
    const progress: Progress = {
      phase: 'boot',
      failure: null,
      grade: null,
      verify: [],
      sandbox: null,
      times: { boot_s: 0, setup_s: 0, agent_s: 0, grade_s: 0 },
    };
    try {
      attempt.signal.throwIfAborted();
      await gradeAgain(attempt, order, ports, boots, limits, progress, log);
    } catch (error) {
      if (attempt.signal.aborted) throw attempt.signal.reason;
      progress.failure = failureOf(error, progress.phase);
      if (error instanceof GradeError) progress.verify = [...error.outcomes];
      if (progress.failure.code === 'internal_error') log.error({ err: error }, 'grading again failed');
    } finally {
      if (progress.sandbox !== null) await tearDown(progress.sandbox, log);
    }
    attempt.signal.throwIfAborted();
    const { failure, grade } = progress;
    const summary = summarise({
      attempt,
      startedAt,
      status: failure === null ? order.status : 'failed',
      stop_reason: failure === null ? order.stop_reason : stopReasonOf(failure),
      failure,
      grade,
      verify: progress.verify,
      metrics: { ...grade?.metrics },
      policy: order.policy,
      sampling: order.sampling,
      limits,
      stats: null,
      calls: [],
      sequences: [],
      usage: noUsage,
      times: progress.times,
      place: progress.sandbox,
      snapshot: null,
      regrade_of: order.source,
    });
    const { version_start, version_end } = order.policy;
    return {
      summary: { ...summary, policy: { ...summary.policy, version_start, version_end } },
      payload: null,
    };
  };
}

async function gradeAgain(
  attempt: EpisodeAttempt,
  order: RegradeOrder,
  ports: RegradePorts,
  boots: BootQueue,
  limits: EffectiveLimits,
  progress: Progress,
  log: Logger,
): Promise<void> {
  const { task, signal } = attempt;
  if (task.kind !== 'claude_code') {
    throw new EpisodeError({
      class: 'task',
      phase: 'boot',
      code: 'kind_not_served',
      message: 'only the final states of sandboxes can be graded again',
    });
  }
  const lane = { provider: ports.provider, cli_binary: null };
  await timed(progress.times, 'boot_s', async () => {
    progress.sandbox = await boots.run(
      () => boot(attempt, lane, limits, ports.pool, null, order.source.snapshot),
      signal,
    );
  });
  const { sandbox } = progress;
  if (sandbox === null) throw new Error('the provider gave no sandbox');
  progress.phase = 'grade';
  await using fresh = freshSandboxes(attempt, {
    provider: ports.provider,
    limits,
    pool: ports.pool,
    queued: (start) => boots.run(start, signal),
    log,
  });
  await timed(progress.times, 'grade_s', async () => {
    progress.grade = await ports.grader.grade({
      task,
      sandbox,
      environment: null,
      limits,
      final_answer: null,
      conversation: [],
      freshSandbox: () => fresh.make(),
      signal,
      log,
    });
    progress.verify = [...progress.grade.verify];
  });
}
