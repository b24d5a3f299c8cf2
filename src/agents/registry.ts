import { EpisodeError, type TaskKind } from '../contracts/index.ts';
import type { Agent } from './agent.ts';
import { createClaudeCodeAgent } from './claude-code/index.ts';
import type { StartGate } from './start-gate.ts';

/** What an agent may need of the process it runs in. */
export interface AgentParts {
  readonly startGate: StartGate;
}

/** Which agent acts for which kind of task. A kind without an entry is not served by this build. */
const factories: Partial<Record<TaskKind, (parts: AgentParts) => Agent>> = {
  claude_code: createClaudeCodeAgent,
};

/** The agent of a kind of task. Throws EpisodeError `agent_unsupported` (task) where there is none. */
export function createAgent(kind: TaskKind, parts: AgentParts): Agent {
  const factory = factories[kind];
  if (factory === undefined) {
    throw new EpisodeError({
      class: 'task',
      phase: 'boot',
      code: 'agent_unsupported',
      message: `no agent acts for tasks of kind ${kind} (kinds served: ${Object.keys(factories).join(', ')})`,
    });
  }
  return factory(parts);
}
