import type { AgentOutcome } from '../agents/agent.ts';
import type { Failure, Status, StopReason } from '../contracts/index.ts';
import type { SessionStats } from '../gateway/session.ts';
import type { SandboxState } from '../sandbox/sandbox.ts';

/** How the agent phase came to its end, as seen from outside the agent. */
export type AgentEnd =
  | { readonly by: 'agent'; readonly outcome: AgentOutcome }
  /** `agent_seconds` ran out. */
  | { readonly by: 'deadline' };

export interface OutcomeInput {
  readonly end: AgentEnd;
  readonly stats: SessionStats;
  /** null for agents that act nowhere. */
  readonly place: { readonly name: 'sandbox' | 'environment'; readonly state: SandboxState } | null;
  readonly agent_seconds: number;
}

/** A verdict before grading: either the final state is to be graded, or there is no reward and why. */
export type Verdict =
  | {
      readonly graded: true;
      readonly status: Extract<Status, 'completed' | 'truncated'>;
      readonly stop_reason: StopReason;
    }
  | { readonly graded: false; readonly stop_reason: StopReason; readonly failure: Failure };

function infra(code: string, message: string): Verdict {
  return {
    graded: false,
    stop_reason: 'infra',
    failure: { class: 'infra', phase: 'agent', code, message, retryable: true },
  };
}

/**
 * The outcome table (design: contracts). What the policy can cause is graded on the final state; what we or a provider
 * caused is null and retried. The order of the rules is the order of blame: a failure of ours hides everything after it.
 */
export function judge({ end, stats, place, agent_seconds }: OutcomeInput): Verdict {
  if (stats.failure !== null) return { graded: false, stop_reason: 'infra', failure: stats.failure };
  if (place?.state === 'gone') {
    return infra(`${place.name}_gone`, `the ${place.name} vanished while the agent ran`);
  }

  if (end.by === 'deadline') {
    if (stats.longest_call_ms > agent_seconds * 500) {
      return infra(
        'policy_slow',
        `one model call took ${Math.round(stats.longest_call_ms / 1000)} s of the agent's ${agent_seconds} s`,
      );
    }
    return stats.calls === 0
      ? neverCalled('the agent made no model call before its deadline')
      : { graded: true, status: 'truncated', stop_reason: 'timeout' };
  }

  const { ending, detail } = end.outcome;
  if (stats.calls === 0) return neverCalled(detail || 'the agent ended without a model call');
  if (ending === 'agent_done' || ending === 'refusal') {
    return { graded: true, status: 'completed', stop_reason: ending };
  }
  // The gateway's budget is the cause where it has one; the agent's own account only describes how it died of it.
  return { graded: true, status: 'truncated', stop_reason: stats.budget ?? ending };
}

function neverCalled(message: string): Verdict {
  return {
    graded: false,
    stop_reason: 'agent_error',
    failure: { class: 'agent', phase: 'agent', code: 'no_model_call', message, retryable: false },
  };
}

/** True when more than half of the agent's time was model wait. */
export function slowPolicy(stats: SessionStats, agentSeconds: number): boolean {
  return stats.model_ms > agentSeconds * 500;
}
