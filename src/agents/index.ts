export type { Agent, AgentContext, AgentOutcome } from './agent.ts';
export { createClaudeCodeAgent, type ClaudeCodeAgentOptions } from './claude-code/index.ts';
export { agentDone, createInProcessAgent } from './in-process.ts';
export { agentKinds, createAgent, type AgentParts } from './registry.ts';
export { createStartGate, type StartGate } from './start-gate.ts';
