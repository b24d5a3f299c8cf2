import type { CallRecord, StopReason } from '../contracts/index.ts';

/**
 * Seconds without a model call before its time ended an agent, when they are more than half of its time; null otherwise.
 * An agent that sleeps until then may hope for a milder grade, or wait for something it left running.
 */
export function idleBeforeTimeout(
  stop_reason: StopReason,
  calls: readonly Pick<CallRecord, 'ended_at'>[],
  endedAt: number,
  agentSeconds: number,
): number | null {
  if (stop_reason !== 'timeout' || calls.length === 0) return null;
  const idle = (endedAt - Math.max(...calls.map((call) => call.ended_at))) / 1000;
  return idle > agentSeconds / 2 ? Math.round(idle) : null;
}
