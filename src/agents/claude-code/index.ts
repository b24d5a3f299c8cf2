export { createClaudeCodeAgent } from './agent.ts';
