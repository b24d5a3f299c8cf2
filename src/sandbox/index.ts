export {
  ClaudeCliError,
  claudeCliPackage,
  claudeCliVersion,
  findClaudeCli,
  readClaudeCliVersion,
} from './claude-cli.ts';
export { createSandboxProvider, type SandboxProviderName } from './create-provider.ts';
export { DockerProvider } from './docker/docker-provider.ts';
export type { Sandbox, SandboxProvider, SandboxRequest, SandboxUser } from './sandbox.ts';
export { createSandboxShelf, createWarmPool } from './warm/warm-pool.ts';
