export { createClaudeCodeAgent, type ClaudeCodeAgentOptions } from './agent.ts';
