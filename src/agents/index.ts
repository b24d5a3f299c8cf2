export type { Agent, AgentContext, AgentOutcome } from './agent.ts';
export { createClaudeCodeAgent } from './claude-code/index.ts';
export { agentDone, createInProcessAgent } from './in-process.ts';
export { createAgent, type AgentParts } from './registry.ts';
export { createStartGate, type StartGate } from './start-gate.ts';
export { createToolLoopAgent, type ToolMode } from './tool-loop/index.ts';
