import { EpisodeError, type ClaudeCodeTask, type VerifyOutcome } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { CleanRuns } from './clean-run.ts';
import { endSandbox, makeFresh, moveToFresh, settleLeading, type Moved } from './fresh.ts';
import { GradeError } from './grade-error.ts';
import type { Grade, GradeContext, Grader } from './grader.ts';
import { lookForLeadingFiles } from './look.ts';
import { computeReward, parseRewardRule, passed, type RewardResult } from './reward.ts';
import { runVerifier, type Verified } from './run-verifier.ts';
import { suspiciousTraces, testFiles } from './traces.ts';

const killAgentMs = 30_000;

/** The agent's own sandbox as the one to verify in: what leads the verifier there is to be as it was before the agent. */
async function stayInPlace(context: GradeContext, task: ClaudeCodeTask, sandbox: Sandbox): Promise<Moved> {
  const { before, signal } = context;
  const known = before ?? null;
  const now = known === null ? null : await lookForLeadingFiles(sandbox, task.verify, signal);
  return { sandbox, metrics: {}, ...settleLeading(task, known, now) };
}

/** The result where the agent is to blame for whatever of the verifier did not work. Throws GradeError where it is not. */
async function settleFaults(
  context: GradeContext,
  task: ClaudeCodeTask,
  sandbox: Sandbox,
  { run, result }: Verified,
  cleanRuns: CleanRuns,
): Promise<{ readonly result: Exclude<RewardResult, { fault: unknown }>; readonly broken: boolean }> {
  const { outcomes, faults } = run;
  if (faults.length === 0 && !('fault' in result)) return { result, broken: false };
  const blame = (fault: { readonly code: string; readonly message: string }): GradeError =>
    new GradeError({ class: 'task', code: fault.code, message: fault.message }, outcomes);
  const [first] = faults;
  if (context.freshSandbox === undefined && first !== undefined) throw blame(first);
  if (context.freshSandbox === undefined && 'fault' in result) throw blame(result.fault);
  // Everything that is needed of it has been read; two at once may be more than a provider has places for.
  await endSandbox(sandbox, context);
  const clean = await cleanRuns.of(context, task, sandbox.provider, () => makeFresh(context));
  const own = faults.find(({ index }) => clean.faulty.has(index));
  if (own !== undefined) throw blame(own);
  if (!('fault' in result)) return { result, broken: true };
  if (clean.unrewarded) throw blame(result.fault);
  const nothing = computeReward(task.verify, outcomes, null, true);
  if ('fault' in nothing) throw blame(nothing.fault);
  return { result: nothing, broken: true };
}

/** The grade of work that no verifier can be run on, and that is the agent's own doing. */
function nothingFor(
  { verify }: ClaudeCodeTask,
  metrics: Grade['metrics'],
  outcomes: readonly VerifyOutcome[],
): Grade {
  const notRun = verify.commands.slice(outcomes.length).map((command) => ({
    command,
    exit_code: null,
    stdout_tail: '',
    stderr_tail: `not run: ${Object.keys(metrics).join(', ')}`,
    seconds: 0,
  }));
  const all = [...outcomes, ...notRun];
  const none = computeReward(
    verify,
    all.map((outcome) => ({ ...outcome, exit_code: null })),
    null,
    true,
  );
  if ('fault' in none) throw new GradeError({ class: 'task', ...none.fault }, all);
  return { ...none, verify: all, metrics: { ...metrics, ...none.metrics } };
}

/** Whether the agent wrote more than its disk may hold, so that nothing of the verifier's fits. */
async function isFull(sandbox: Sandbox): Promise<boolean> {
  return sandbox.state().then(
    (state) => state === 'disk_full',
    () => false,
  );
}

async function gradeSandbox(
  context: GradeContext,
  agents: Sandbox,
  task: ClaudeCodeTask,
  outcomes: VerifyOutcome[],
  cleanRuns: CleanRuns,
): Promise<Grade> {
  const { limits, signal } = context;
  const { verify } = task;
  await agents.killAgent(killAgentMs);
  signal.throwIfAborted();
  const place = await (verify.sandbox === 'fresh' ? moveToFresh : stayInPlace)(context, task, agents);
  if (place.spoiled !== null) {
    return nothingFor(task, { ...place.metrics, [place.spoiled]: true }, outcomes);
  }
  const { sandbox, restored } = place;
  const verified = await runVerifier(
    sandbox,
    {
      verify,
      limits,
      restored,
      hashed: testFiles(task),
      agentStartedAt: verify.sandbox === 'fresh' ? null : (context.agent_started_at ?? null),
      signal,
    },
    outcomes,
  );
  const { result, broken } = await settleFaults(context, task, sandbox, verified, cleanRuns);
  // The other rules give a part of 1, whatever the range.
  const { kind } = parseRewardRule(verify.reward);
  const top = kind === 'file' || kind === 'harbor' ? verify.reward_range[1] : 1;
  const setAside = restored.remove.length + Object.keys(restored.write).length;
  return {
    reward: result.reward,
    rewards: result.rewards,
    verify: [...outcomes],
    metrics: {
      verify_commands: outcomes.length,
      verify_passed: outcomes.filter(passed).length,
      ...(verified.run.timeouts > 0 ? { verify_timeouts: verified.run.timeouts } : {}),
      // Only with it can a reader of results tell which reward is a pass.
      ...(top === 1 ? {} : { reward_max: top }),
      ...(broken ? { verifier_broken_by_agent: true } : {}),
      ...place.metrics,
      ...suspiciousTraces(task, context, verified.room, setAside),
      ...result.metrics,
    },
  };
}

/**
 * Grades a sandboxed task by its verify commands. In this order, and only in this order: the agent's processes are
 * killed and found dead; with `verify.sandbox: fresh` its artifacts are laid over a sandbox that it has not been in, and
 * its own is ended; what it planted in the verifier's places is removed; the verifier's files come in; the commands
 * run as another user with a clean environment; the reward is taken by the task's rule.
 *
 * Rejects with GradeError, which keeps the outcomes so far. Class task: `verifier_missing` (exit 126, 127),
 * `verifier_error` (pytest exit 3, 4, 5), `reward_missing`, `reward_invalid`, each only where the same happens in a
 * sandbox that no agent has been in: what the agent broke counts 0; `artifacts_too_large`, `verifier_unsupported`. Class
 * infra: `sandbox_gone`, `prepare_failed`, and the sandbox's own codes. Rejects with the signal's reason when it aborted.
 *
 * What it cannot keep out: code under test that a verify command loads into its own process runs with the verifier's
 * rights there. A task that must not trust it runs it as a child process from its verify files.
 */
export function createCommandGrader(): Grader {
  const cleanRuns = new CleanRuns();
  return {
    async look(task, sandbox, signal) {
      // A fresh sandbox is looked at itself before anything of the agent's comes in.
      if (task.kind !== 'claude_code' || task.verify.sandbox === 'fresh') return null;
      return lookForLeadingFiles(sandbox, task.verify, signal);
    },
    async grade(context) {
      const { task, sandbox, signal } = context;
      if (task.kind !== 'claude_code' || sandbox === null) {
        throw new Error(`verify commands need a claude_code task and a sandbox, not ${task.kind}`);
      }
      const outcomes: VerifyOutcome[] = [];
      try {
        return await gradeSandbox(context, sandbox, task, outcomes, cleanRuns);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof EpisodeError)) throw error;
        if (error.failure.class === 'infra' && (await isFull(sandbox)))
          return nothingFor(task, { disk_full: true }, outcomes);
        if (error instanceof GradeError) throw error;
        throw new GradeError(error.failure, outcomes, { cause: error });
      }
    },
  };
}
