export {
  ClaudeCliError,
  claudeCliPackage,
  claudeCliVersion,
  findClaudeCli,
  readClaudeCliVersion,
} from './claude-cli.ts';
export {
  createSandboxProvider,
  type SandboxProviderName,
  type SandboxProviderOptions,
} from './create-provider.ts';
export type {
  ExecOptions,
  ExecResult,
  ReapFilter,
  ReapReport,
  Sandbox,
  SandboxOwner,
  SandboxProcess,
  SandboxProvider,
  SandboxRequest,
  SandboxState,
  SandboxUser,
  SpawnOptions,
} from './sandbox.ts';
