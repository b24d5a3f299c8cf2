import { EpisodeError, type Failure, type Phase, type StopReason } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import type { Place } from './place.ts';
import type { PhaseTimes } from './summary.ts';

/** Seconds a sandbox or an environment may take to die before we leave it to the reaper. */
const teardownSeconds = 60;

export function stopReasonOf(failure: Failure): StopReason {
  return failure.class === 'infra' ? 'infra' : failure.class === 'task' ? 'task_error' : 'agent_error';
}

/** The one boundary where an error becomes a failure: an EpisodeError brings its own, anything else is ours. */
export function failureOf(error: unknown, phase: Phase): Failure {
  if (error instanceof EpisodeError) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { class: 'infra', phase, code: 'internal_error', message: message.slice(0, 2000), retryable: true };
}

export async function timed(
  times: PhaseTimes,
  name: keyof PhaseTimes,
  work: () => Promise<void>,
): Promise<void> {
  const startedAt = performance.now();
  try {
    await work();
  } finally {
    times[name] = (performance.now() - startedAt) / 1000;
  }
}

/** Ends the place; one that does not end in time is left to the reaper, which finds it by its labels. */
export async function tearDown(place: Place, log: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), teardownSeconds * 1000);
  });
  try {
    const ended = await Promise.race([place[Symbol.asyncDispose]().then(() => 'dead' as const), late]);
    if (ended === 'late') log.error({ place: place.id }, 'did not end in time: left to the reaper');
  } catch (error) {
    log.error({ err: error, place: place.id }, 'could not be removed: left to the reaper');
  } finally {
    clearTimeout(timer);
  }
}
