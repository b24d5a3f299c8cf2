export { createToolLoopAgent, type ToolLoopAgentOptions } from './agent.ts';
export type { ToolMode } from './dialect.ts';
