export {
  ClaudeCliError,
  claudeCliPackage,
  claudeCliVersion,
  findClaudeCli,
  readClaudeCliVersion,
} from './claude-cli.ts';
export { createSandboxProvider, type SandboxProviderName } from './create-provider.ts';
export type { E2bConnection } from './e2b/connection.ts';
export { defaultTemplate as defaultE2bTemplate } from './e2b/default-template.ts';
export { DockerProvider } from './docker/docker-provider.ts';
export type { Sandbox, SandboxProvider, SandboxRequest, SandboxUser } from './sandbox.ts';
export { createSandboxShelf, createWarmPool } from './warm/warm-pool.ts';
