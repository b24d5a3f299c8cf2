import { EpisodeError, type Verify, type VerifyOutcome } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { GradeError } from './grade-error.ts';
import type { Grade, GradeContext, Grader } from './grader.ts';
import { prepareWorkdir } from './prepare.ts';
import { readRewardFile } from './reward-file.ts';
import { computeReward, parseRewardRule, passed } from './reward.ts';
import { runCommands } from './run-commands.ts';

const killAgentMs = 30_000;

async function gradeSandbox(
  context: GradeContext,
  sandbox: Sandbox,
  verify: Verify,
  outcomes: VerifyOutcome[],
): Promise<Grade> {
  const { limits, signal } = context;
  await sandbox.killAgent(killAgentMs);
  signal.throwIfAborted();
  const room = await prepareWorkdir(sandbox, verify, limits.grade_total_seconds * 1000, signal);
  const run = await runCommands(sandbox, verify, room.env, limits, signal, outcomes);
  const [fault] = run.faults;
  if (fault !== undefined) {
    throw new GradeError({ class: 'task', code: fault.code, message: fault.message }, outcomes);
  }
  const file = await readRewardFile(sandbox, verify, room, signal);
  const result = computeReward(verify, run.outcomes, file.text, run.cutShort || file.unread);
  if ('fault' in result) throw new GradeError({ class: 'task', ...result.fault }, outcomes);
  // The other rules give a part of 1, whatever the range.
  const top = parseRewardRule(verify.reward).kind === 'file' ? verify.reward_range[1] : 1;
  return {
    reward: result.reward,
    rewards: result.rewards,
    verify: [...outcomes],
    metrics: {
      verify_commands: outcomes.length,
      verify_passed: outcomes.filter(passed).length,
      ...(run.timeouts > 0 ? { verify_timeouts: run.timeouts } : {}),
      // Only with it can a reader of results tell which reward is a pass.
      ...(top === 1 ? {} : { reward_max: top }),
      ...result.metrics,
    },
  };
}

/**
 * Grades a sandboxed task by its verify commands. In this order, and only in this order: the agent's processes are
 * killed and found dead; what it planted in the verifier's places is removed; the verifier's files come in; the commands
 * run as another user with a clean environment; the reward is taken by the task's rule.
 *
 * Rejects with GradeError, which keeps the outcomes so far. Class task: `verifier_missing` (exit 126, 127),
 * `verifier_error` (pytest exit 3, 4, 5), `reward_missing`, `reward_invalid`. Class infra: `sandbox_gone`,
 * `prepare_failed`, and the sandbox's own codes. Rejects with the signal's reason when it aborted.
 *
 * What it cannot keep out: code under test that a verify command loads into its own process runs with the verifier's
 * rights there. A task that must not trust it runs it as a child process from its verify files.
 */
export function createCommandGrader(): Grader {
  return {
    async grade(context) {
      const { task, sandbox, signal } = context;
      if (task.kind !== 'claude_code' || sandbox === null) {
        throw new Error(`verify commands need a claude_code task and a sandbox, not ${task.kind}`);
      }
      const outcomes: VerifyOutcome[] = [];
      try {
        return await gradeSandbox(context, sandbox, task.verify, outcomes);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof GradeError || !(error instanceof EpisodeError)) throw error;
        throw new GradeError(error.failure, outcomes, { cause: error });
      }
    },
  };
}
