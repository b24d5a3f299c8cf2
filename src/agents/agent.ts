import type { EffectiveLimits, StopReason, Task } from '../contracts/index.ts';
import type { Environment } from '../fleet/environment.ts';
import type { GatewaySession } from '../gateway/session.ts';
import type { Logger } from '../observe/index.ts';
import type { Ahead, Sandbox } from '../sandbox/sandbox.ts';

export interface AgentContext {
  readonly task: Task;
  readonly session: GatewaySession;
  /** null for agents that act without one. */
  readonly sandbox: Sandbox | null;
  /** null for agents that act without one. */
  readonly environment: Environment | null;
  readonly limits: EffectiveLimits;
  /** Identity of the attempt, for ids that must be stable or unique. */
  readonly episode_id: string;
  readonly attempt: number;
  /** Aborts at the agent's deadline, on cancel and on infra failure; its reason says which. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/**
 * How the agent ended, by its own account. The episode sets it beside the gateway's budgets and the sandbox's state
 * (the outcome table): `agent_error` here may become `max_turns` there.
 */
export interface AgentOutcome {
  readonly ending: Extract<
    StopReason,
    'agent_done' | 'max_turns' | 'max_tokens' | 'context_overflow' | 'refusal' | 'agent_error'
  >;
  readonly exit_code: number | null;
  /** The agent's own words on an error; empty on success. */
  readonly detail: string;
  /** The agent's final text, where there is one. */
  readonly final_answer: string | null;
  readonly metrics: Readonly<Record<string, number | boolean | string>>;
}

/** One way of acting. `run` resolves however the agent ended, and rejects only with EpisodeError or the signal's reason. */
export interface Agent {
  readonly name: string;
  run(context: AgentContext): Promise<AgentOutcome>;
  /** What of it can be started in a sandbox before its task is known; null or absent: nothing. */
  ahead?(task: Task, limits: EffectiveLimits): Ahead | null;
}
