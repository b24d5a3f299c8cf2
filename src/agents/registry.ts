import type { TaskKind } from '../contracts/index.ts';
import type { Agent } from './agent.ts';
import { createClaudeCodeAgent } from './claude-code/index.ts';
import type { StartGate } from './start-gate.ts';
import { createToolLoopAgent, type ToolMode } from './tool-loop/index.ts';

/** What an agent may need of the process it runs in. */
export interface AgentParts {
  readonly startGate: StartGate;
  /** Whether its CLI is started in sandboxes that wait for their episode. Default: false. */
  readonly startAhead?: boolean;
  /** How the policy calls tools, as its probe or the settings say. */
  readonly toolMode: ToolMode;
}

/** Which agent acts for which kind of task. */
const factories: Record<TaskKind, (parts: AgentParts) => Agent> = {
  claude_code: createClaudeCodeAgent,
  fleet: createToolLoopAgent,
};

/** The agent of a kind of task. */
export function createAgent(kind: TaskKind, parts: AgentParts): Agent {
  return factories[kind](parts);
}
