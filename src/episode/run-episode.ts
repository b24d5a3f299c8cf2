import {
  resolveLimits,
  resolveSampling,
  type CallRecord,
  type Failure,
  type Phase,
  type ResultSummary,
  type Status,
  type StopReason,
} from '../contracts/index.ts';
import type { GatewaySession, SessionStats } from '../gateway/session.ts';
import type { Grade, GradeContext } from '../grading/grader.ts';
import { GradeError } from '../grading/index.ts';
import { crashPoint, type Logger } from '../observe/index.ts';
import type { EpisodeAttempt, EpisodeOutput, EpisodeProcessor } from '../queue/processor.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { buildSequences, buildTrace, encodePayload } from '../trajectory/index.ts';
import { runAgent } from './agent-phase.ts';
import { failureOf, stopReasonOf, tearDown, timed } from './attempt-end.ts';
import { boot, enterEnvironment, setUp } from './boot.ts';
import { BootQueue } from './boot-queue.ts';
import { conversationOf } from './conversation.ts';
import { idleBeforeTimeout } from './idle-end.ts';
import { freshSandboxes } from './fresh-sandboxes.ts';
import { keepState, type KeptState } from './keep-state.ts';
import { nowhere, placeOf, type Places } from './place.ts';
import { noUsage, summarise, type PhaseTimes } from './summary.ts';
import type { EpisodePorts } from './ports.ts';

/** Only a look: one that takes long is not worth waiting for. */
const countMs = 10_000;

/** Everything known of an attempt while it runs; what it holds at the end makes the result. */
interface Progress {
  phase: Phase;
  status: Status;
  stop_reason: StopReason;
  failure: Failure | null;
  grade: Grade | null;
  verify: ResultSummary['verify'];
  metrics: Record<string, number | boolean | string>;
  times: PhaseTimes;
  stats: SessionStats | null;
  calls: readonly CallRecord[];
  places: Places;
  /** The kept final state; null: none is kept. */
  snapshot: KeptState | null;
}

/**
 * Makes the processor that runs one attempt of an episode through its phases: boot, set-up, agent, grade. It resolves
 * with a result for every end that is the episode's own, failures included, and rejects only with the reason of the
 * attempt's signal. When it settles, the session is closed, and the sandbox or the environment is gone.
 */
export function createEpisodeProcessor(ports: EpisodePorts): EpisodeProcessor {
  const boots = new BootQueue(ports.boot_concurrency);

  return async (attempt) => {
    const startedAt = Date.now();
    const log = ports.log.child({
      run: attempt.job.run_id,
      episode: attempt.job.episode_id,
      attempt: attempt.attempt,
      task: attempt.job.task_key,
    });
    const limits = resolveLimits(ports.limits, attempt.run.limits, attempt.job.limits, attempt.task.limits);
    const sampling = resolveSampling(ports.sampling, attempt.run.sampling, attempt.job.sampling);
    const progress: Progress = {
      phase: 'boot',
      status: 'failed',
      stop_reason: 'infra',
      failure: null,
      grade: null,
      verify: [],
      metrics: {},
      times: { boot_s: 0, setup_s: 0, agent_s: 0, grade_s: 0 },
      stats: null,
      calls: [],
      places: nowhere,
      snapshot: null,
    };
    let session: GatewaySession | undefined;
    try {
      attempt.signal.throwIfAborted();
      const parts = ports.partsFor(attempt.task, attempt.lane);
      session = await ports.sessions.open({
        run_id: attempt.job.run_id,
        episode_id: attempt.job.episode_id,
        attempt: attempt.attempt,
        nonce: attempt.nonce,
        sampling,
        limits,
        unix_socket: parts.provider !== null,
      });
      await runPhases(attempt, ports, boots, session, parts, limits, progress, log);
    } catch (error) {
      if (attempt.signal.aborted) throw attempt.signal.reason;
      progress.failure = failureOf(error, progress.phase);
      progress.status = 'failed';
      progress.stop_reason = stopReasonOf(progress.failure);
      if (error instanceof GradeError) progress.verify = [...error.outcomes];
      if (progress.failure.code === 'internal_error')
        log.error({ err: error }, 'episode failed unexpectedly');
    } finally {
      try {
        if (session !== undefined) {
          progress.calls = await session.finish();
          progress.stats = session.stats();
        }
      } finally {
        // The session's directory is mounted in the sandbox, so the sandbox goes first.
        const place = placeOf(progress.places);
        if (place !== null) await tearDown(place, log);
        Object.assign(
          progress.metrics,
          progress.places.environment?.metrics,
          progress.places.sandbox?.metrics,
        );
        await session?.[Symbol.asyncDispose]();
      }
    }
    attempt.signal.throwIfAborted();
    return assemble(attempt, ports, progress, limits, sampling, startedAt);
  };
}

async function runPhases(
  attempt: EpisodeAttempt,
  ports: EpisodePorts,
  boots: BootQueue,
  session: GatewaySession,
  parts: ReturnType<EpisodePorts['partsFor']>,
  limits: ReturnType<typeof resolveLimits>,
  progress: Progress,
  log: Logger,
): Promise<void> {
  const { task } = attempt;
  await timed(progress.times, 'boot_s', async () => {
    // Bringing an image may take as long as it takes its provider; a boot may not.
    if (task.kind === 'claude_code') await parts.provider?.provide?.(task.sandbox, attempt.signal);
    const environment = await enterEnvironment(attempt, parts, limits, ports.pool);
    progress.places = { ...nowhere, environment };
    const booting = (): Promise<Sandbox | null> =>
      boot(attempt, parts, limits, ports.pool, session.socket_dir);
    const sandbox = await (parts.provider?.remote === true ? booting() : boots.run(booting, attempt.signal));
    progress.places = { sandbox, environment };
    if (sandbox?.warm !== undefined) progress.metrics['warm'] = true;
  });
  const { sandbox } = progress.places;
  let before: NonNullable<GradeContext['before']> | null = null;
  if (sandbox !== null && task.kind === 'claude_code') {
    progress.phase = 'setup';
    await timed(progress.times, 'setup_s', async () => {
      await setUp(sandbox, task, limits, attempt.signal);
      before = (await parts.grader.look?.(task, sandbox, attempt.signal)) ?? null;
    });
  }

  progress.phase = 'agent';
  const agentStartedAt = Date.now();
  const ended = await runAgent(attempt, parts, session, progress.places, limits, log);
  const agentEndedAt = Date.now();
  progress.times.agent_s = ended.seconds;
  Object.assign(progress.metrics, ended.metrics);
  progress.stop_reason = ended.verdict.stop_reason;
  if (!ended.verdict.graded) {
    progress.failure = ended.verdict.failure;
    return;
  }
  // From here on no call is served: what the agent left behind must not sample beside the verifier.
  const calls = await session.finish();

  progress.phase = 'grade';
  const { status, stop_reason } = ended.verdict;
  const idle = idleBeforeTimeout(stop_reason, calls, agentEndedAt, limits.agent_seconds);
  if (idle !== null) progress.metrics['idle_before_timeout_s'] = idle;
  const processesLeft = await sandbox?.countAgent?.(countMs).catch(() => undefined);
  if (sandbox !== null) {
    progress.snapshot = await keepState(
      sandbox,
      parts.provider,
      attempt,
      ports,
      { status, stop_reason },
      log,
    );
  }
  const { provider } = parts;
  await using fresh =
    provider === null
      ? null
      : freshSandboxes(attempt, {
          provider,
          limits,
          pool: ports.pool,
          queued: (start) => boots.run(start, attempt.signal),
          log,
        });
  await timed(progress.times, 'grade_s', async () => {
    const grade = await parts.grader.grade({
      task,
      ...progress.places,
      limits,
      final_answer: ended.final_answer,
      conversation: conversationOf(calls),
      before,
      agent_started_at: agentStartedAt,
      ...(processesLeft === undefined ? {} : { processes_left: processesLeft }),
      ...(fresh === null ? {} : { freshSandbox: () => fresh.make() }),
      signal: attempt.signal,
      log,
    });
    progress.grade = grade;
    progress.verify = [...grade.verify];
    Object.assign(progress.metrics, grade.metrics);
    progress.status = status;
  });
  crashPoint('grade:after');
}

function assemble(
  attempt: EpisodeAttempt,
  ports: EpisodePorts,
  progress: Progress,
  limits: ReturnType<typeof resolveLimits>,
  sampling: ReturnType<typeof resolveSampling>,
  startedAt: number,
): EpisodeOutput {
  const policy = typeof ports.policy === 'function' ? ports.policy() : ports.policy;
  const { calls } = progress;
  const built = calls.length === 0 ? { sequences: [], usage: noUsage } : buildSequences(calls);
  const summary = summarise({
    attempt,
    startedAt,
    status: progress.status,
    stop_reason: progress.stop_reason,
    failure: progress.failure,
    grade: progress.grade,
    verify: progress.verify,
    metrics: progress.metrics,
    policy,
    sampling,
    limits,
    stats: progress.stats,
    calls,
    sequences: built.sequences,
    usage: built.usage,
    times: progress.times,
    place: placeOf(progress.places),
    snapshot: progress.snapshot,
  });
  const payload =
    calls.length === 0 ? null : encodePayload({ sequences: built.sequences, trace: buildTrace(calls) });
  return { summary, payload };
}
