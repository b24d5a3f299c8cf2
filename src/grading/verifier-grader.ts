import { setTimeout as pause } from 'node:timers/promises';
import { EpisodeError, type Failure, type VerifyOutcome } from '../contracts/index.ts';
import type { Environment, VerifierAnswer } from '../fleet/environment.ts';
import { partialMarks, partialReward, type NoPartialReward, type PartialReward } from './accumulators.ts';
import { agentWrote } from './agent-words.ts';
import { GradeError } from './grade-error.ts';
import type { Grade, GradeContext, Grader } from './grader.ts';
import { TimeLimitError, withTimeLimit } from './time-limit.ts';
import { faultOf } from './verifier-fault.ts';
import { readScore } from './verifier-score.ts';

export interface VerifierGraderOptions {
  /** Takes a part of a reward from what the verifier prints when its score is 0. Default: false. */
  readonly partialReward?: boolean;
  /**
   * Milliseconds before each further execution; one more than these are tried in all. Default: 3000, 6000, 12000, as
   * the public OpenEnv source has them.
   */
  readonly backoffMs?: readonly number[];
}

/** The wire takes 1 to 300 seconds. */
const longestExecution = 300;
/**
 * Milliseconds one execution may take beside the verifier's own time: looking the bundle up, upload, queueing. Only a
 * backstop, since an environment has deadlines of its own for these.
 */
const slackMs = 120_000;
const tailChars = 2_000;

type Fault = Pick<Failure, 'class' | 'code' | 'message'> & {
  readonly retry: boolean;
  readonly cause?: unknown;
};
type Executed = { readonly answer: VerifierAnswer } | { readonly fault: Fault };

function outcomeOf(executed: Executed, fault: Fault | null, seconds: number): VerifyOutcome {
  if (!('answer' in executed)) {
    const stderr_tail = executed.fault.message.slice(-tailChars);
    return { command: 'verifier', exit_code: null, stdout_tail: '', stderr_tail, seconds };
  }
  const { stdout, error, execution_ms } = executed.answer;
  const last = error === null ? '' : `${error.type}: ${error.message}`;
  const trace = error?.traceback.trimEnd() ?? '';
  // A traceback ends with the exception.
  const said = trace.endsWith(last) ? trace : `${trace}\n${last}`.trim();
  return {
    command: 'verifier',
    exit_code: fault === null ? 0 : fault.code === 'verifier_timeout' ? null : 1,
    stdout_tail: stdout.slice(-tailChars),
    stderr_tail: said.slice(-tailChars),
    seconds:
      execution_ms !== null && Number.isFinite(execution_ms) && execution_ms >= 0
        ? execution_ms / 1000
        : seconds,
  };
}

/** One execution; what it rejected with becomes a fault where trying again can help, and is thrown where it cannot. */
async function execute(
  environment: Environment,
  context: GradeContext,
  leftMs: number,
  outcomes: readonly VerifyOutcome[],
): Promise<Executed> {
  const { limits, signal, final_answer, conversation } = context;
  const wanted = Math.ceil(Math.min(limits.grade_seconds, leftMs / 1000));
  const timeout_seconds = Math.min(longestExecution, Math.max(1, wanted));
  const limitMs = Math.min(leftMs, timeout_seconds * 1000 + slackMs);
  try {
    const answer = await withTimeLimit(
      (limited) => environment.verify({ final_answer, conversation, timeout_seconds, signal: limited }),
      limitMs,
      signal,
    );
    return { answer };
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof TimeLimitError) {
      const message = `the verifier gave ${cause.message}`;
      return { fault: { class: 'infra', code: 'verifier_timeout', message, retry: true, cause } };
    }
    if (!(cause instanceof EpisodeError)) throw cause;
    const { failure } = cause;
    // Another environment may help there, another call to this one cannot.
    const retry = failure.class === 'infra' && failure.retryable && failure.code !== 'environment_gone';
    if (!retry) throw new GradeError(failure, outcomes, { cause });
    return {
      fault: { class: failure.class, code: failure.code, message: failure.message, retry, cause },
    };
  }
}

/** Rejects when the environment is not there any more: no execution can succeed then. */
async function expectRunning(
  environment: Environment,
  leftMs: number,
  fault: Fault,
  context: GradeContext,
  outcomes: readonly VerifyOutcome[],
): Promise<void> {
  try {
    if ((await withTimeLimit(() => environment.state(), leftMs, context.signal)) === 'running') return;
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof TimeLimitError) return;
    throw error;
  }
  const message = `the environment vanished during grading; ${fault.message}`;
  throw new GradeError({ class: 'infra', code: 'environment_gone', message }, outcomes, {
    cause: fault.cause,
  });
}

interface Verified {
  readonly answer: VerifierAnswer;
  readonly attempts: number;
  /** Milliseconds in executions, pauses not counted. */
  readonly ms: number;
}

async function verify(
  environment: Environment,
  context: GradeContext,
  backoffMs: readonly number[],
  outcomes: VerifyOutcome[],
): Promise<Verified> {
  const { limits, signal, log } = context;
  const deadline = performance.now() + limits.grade_total_seconds * 1000;
  const left = (): number => deadline - performance.now();
  let ms = 0;
  for (let attempt = 1; ; attempt += 1) {
    const began = performance.now();
    const executed = await execute(environment, context, left(), outcomes);
    const took = performance.now() - began;
    ms += took;
    const fault: Fault | null =
      'answer' in executed ? faultOf(executed.answer, (marks) => agentWrote(marks, context)) : executed.fault;
    // The last execution is the one that counts.
    outcomes.splice(0, outcomes.length, outcomeOf(executed, fault, took / 1000));
    if ('answer' in executed && fault === null) return { answer: executed.answer, attempts: attempt, ms };
    const { class: blamed, code, message: why, retry, cause } = fault!;
    log.info({ attempt, code, why }, 'verifier execution failed');
    const next = backoffMs[attempt - 1];
    if (!retry || next === undefined) {
      const message = attempt === 1 ? why : `${why} (attempt ${attempt})`;
      throw new GradeError({ class: blamed, code, message }, outcomes, { cause });
    }
    if (left() > 0 && blamed === 'infra') await expectRunning(environment, left(), fault!, context, outcomes);
    if (left() <= next) {
      const spent = `grade_total_seconds (${limits.grade_total_seconds}) ends before attempt ${attempt + 1}`;
      const message = `${spent}; attempt ${attempt}: ${why}`;
      throw new GradeError({ class: 'infra', code: 'verifier_timeout', message }, outcomes, { cause });
    }
    try {
      await pause(next, undefined, { signal });
    } catch {
      signal.throwIfAborted();
    }
  }
}

function partOf(
  stdout: string,
  context: GradeContext,
): PartialReward | { readonly none: NoPartialReward | 'agent_wrote_marks' } {
  const part = partialReward(stdout);
  return 'reward' in part && agentWrote(partialMarks, context) ? { none: 'agent_wrote_marks' } : part;
}

function gradeOf(
  verified: Verified,
  partial: boolean,
  context: GradeContext,
  outcomes: readonly VerifyOutcome[],
): Grade {
  const { answer, attempts, ms } = verified;
  const read = readScore(answer.result);
  if ('fault' in read) throw new GradeError({ class: 'task', ...read.fault }, outcomes);
  const { score, parts, nullResult } = read;
  const part = partial && score === 0 ? partOf(answer.stdout, context) : null;
  return {
    reward: part !== null && 'reward' in part ? part.reward : score,
    rewards: { ...parts, verifier: score },
    verify: [...outcomes],
    metrics: {
      verifier_attempts: attempts,
      verifier_ms: Math.round(ms),
      ...(nullResult ? { null_result: true } : {}),
      ...(part === null ? {} : { partial_reward: 'reward' in part }),
      ...(part !== null && 'none' in part ? { partial_reward_none: part.none } : {}),
    },
  };
}

/**
 * Grades a Fleet task by executing its verifier in the environment, which must still be there. An execution that failed
 * is no grade: it is tried again (`backoffMs`), and what is still unknown then has no reward. `grade_seconds` bounds one
 * execution (1 to 300 s), `grade_total_seconds` all of them with the pauses.
 *
 * Rejects with GradeError, which keeps the last execution. Class task: `verifier_broken` (the source; not tried again),
 * `verifier_raised` (its own code), `reward_invalid`, `reward_out_of_range`. Class infra: `verifier_unavailable`,
 * `verifier_timeout`, `judge_failed`, `environment_gone`. The environment's own failures keep their codes. Rejects with
 * the signal's reason when it aborted.
 *
 * An agent that writes what looks like a judge's error, or like the lists of a partial reward, gains nothing by a
 * verifier that prints it: such marks count only where the agent has not written any.
 */
export function createVerifierGrader(options: VerifierGraderOptions = {}): Grader {
  const { partialReward: partial = false, backoffMs = [3_000, 6_000, 12_000] } = options;
  return {
    async grade(context) {
      const { task, environment } = context;
      if (task.kind !== 'fleet' || environment === null) {
        throw new Error(`a verifier needs a fleet task and an environment, not ${task.kind}`);
      }
      const outcomes: VerifyOutcome[] = [];
      const verified = await verify(environment, context, backoffMs, outcomes);
      context.signal.throwIfAborted();
      return gradeOf(verified, partial, context, outcomes);
    },
  };
}
