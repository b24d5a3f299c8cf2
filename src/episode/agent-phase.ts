import { EpisodeError, type EffectiveLimits } from '../contracts/index.ts';
import type { GatewaySession } from '../gateway/session.ts';
import { crashPoint, type Logger } from '../observe/index.ts';
import type { EpisodeAttempt } from '../queue/processor.ts';
import type { SandboxState } from '../sandbox/sandbox.ts';
import { DeadlineExpired, holdAwareDeadline } from './hold-clock.ts';
import { judge, type AgentEnd, type Verdict } from './outcome.ts';
import { placeOf, type Place, type Places } from './place.ts';
import type { LaneParts } from './ports.ts';
import { settle } from './settle.ts';

const watchEveryMs = 10_000;
/** A look at a place that takes longer than this is a provider that does not answer. */
const stateTimeoutMs = 30_000;
/** How long an agent that was told to end may take to come to rest, seconds. */
const settleSeconds = 60;

/** A place's state, where a provider that does not answer counts as gone. */
async function lookAt(place: Place): Promise<SandboxState> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<SandboxState>((resolve) => {
    timer = setTimeout(() => resolve('gone'), stateTimeoutMs);
  });
  try {
    return await Promise.race([place.state().catch((): SandboxState => 'gone'), silent]);
  } finally {
    clearTimeout(timer);
  }
}

/** Watches a place while its agent acts there: ends the agent when it vanished, and keeps it alive while calls are held. */
function watch(
  place: Place,
  session: GatewaySession,
  log: Logger,
): { signal: AbortSignal } & AsyncDisposable {
  const controller = new AbortController();
  const heldAtStart = session.stats().hold_ms;
  let extendedBy = 0;
  let round: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    round = round.then(async () => {
      if (controller.signal.aborted) return;
      if ((await lookAt(place)) === 'gone') controller.abort(new Error('it vanished'));
      const held = Math.floor((session.stats().hold_ms - heldAtStart) / 1000);
      if (held > extendedBy) {
        await place
          .extend(held - extendedBy)
          .catch((error: unknown) => log.warn({ err: error }, 'not given more time'));
        extendedBy = held;
      }
    });
  }, watchEveryMs);
  return {
    signal: controller.signal,
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await round;
    },
  };
}

export interface AgentPhase {
  readonly verdict: Verdict;
  readonly final_answer: string | null;
  readonly metrics: Readonly<Record<string, number | boolean | string>>;
  readonly seconds: number;
}

/**
 * Runs the agent until it ends, its time is up, the policy failed past its deadlines or the place vanished, and
 * judges the end. Rejects only with the reason of the attempt's own signal.
 */
export async function runAgent(
  attempt: EpisodeAttempt,
  parts: LaneParts,
  session: GatewaySession,
  places: Places,
  limits: EffectiveLimits,
  log: Logger,
): Promise<AgentPhase> {
  const startedAt = performance.now();
  crashPoint('agent:before');
  using deadline = holdAwareDeadline('agent', limits.agent_seconds, () => session.stats().hold_ms);
  const place = placeOf(places);
  await using watcher = place === null ? undefined : watch(place, session, log);
  const signals = [attempt.signal, deadline.signal, session.failed];
  if (watcher !== undefined) signals.push(watcher.signal);

  let end: AgentEnd;
  let gone = false;
  try {
    const signal = AbortSignal.any(signals);
    const running = parts.agent.run({
      task: attempt.task,
      session,
      ...places,
      limits,
      episode_id: attempt.job.episode_id,
      attempt: attempt.attempt,
      signal,
      log,
    });
    const outcome = await settle(running, signal, settleSeconds);
    end = { by: 'agent', outcome };
  } catch (error) {
    attempt.signal.throwIfAborted();
    if (error instanceof EpisodeError) throw error;
    if (watcher?.signal.aborted) gone = true;
    else if (!deadline.signal.aborted && !session.failed.aborted) throw error;
    end = { by: 'deadline' };
  }
  attempt.signal.throwIfAborted();
  crashPoint('agent:after');
  // An agent that was ended by its deadline may have come to rest with an outcome of its own.
  if (end.by === 'agent' && deadline.signal.reason instanceof DeadlineExpired) end = { by: 'deadline' };
  const state = place === null ? null : gone ? 'gone' : await lookAt(place);
  const stats = session.stats();
  const name = places.sandbox === null ? 'environment' : 'sandbox';
  const verdict = judge({
    end,
    stats,
    place: state === null ? null : { name, state },
    agent_seconds: limits.agent_seconds,
  });
  return {
    verdict,
    final_answer: end.by === 'agent' ? end.outcome.final_answer : null,
    metrics: {
      ...(end.by === 'agent' ? end.outcome.metrics : {}),
      ...(end.by === 'agent' && end.outcome.detail !== '' && end.outcome.ending !== 'agent_done'
        ? { agent_detail: end.outcome.detail.slice(-500) }
        : {}),
      // Both limits are the agent's own to keep: what it left is graded.
      ...(state === 'oom' || state === 'disk_full' ? { [state]: true } : {}),
    },
    seconds: (performance.now() - startedAt) / 1000,
  };
}
