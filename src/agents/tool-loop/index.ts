export { createToolLoopAgent } from './agent.ts';
export type { ToolMode } from './dialect.ts';
