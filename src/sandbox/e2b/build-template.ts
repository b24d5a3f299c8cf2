import { Template, type TemplateClass } from 'e2b';
import { claudeCliVersion } from '../claude-cli.ts';
import { accounts } from './accounts.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';

export interface TemplateRequest {
  /** `name`, or `name:tag`. */
  readonly name: string;
  readonly cpus: number;
  /** Megabytes (2^20 bytes). */
  readonly memoryMb: number;
  readonly onLog: (line: string) => void;
  readonly signal: AbortSignal;
}

/** What an agent, its verifiers and our own part in a sandbox need: bash, python3, git, the CLI, and our users. */
function claudeCodeTemplate(): TemplateClass {
  const users = (['agent', 'grader'] as const).map((name) => {
    const { uid, home } = accounts[name];
    return `groupadd -g ${uid} ${name} && useradd -m -d ${home} -u ${uid} -g ${uid} -s /bin/bash ${name}`;
  });
  return Template()
    .fromNodeImage('22-bookworm-slim')
    .aptInstall(['bash', 'ca-certificates', 'coreutils', 'findutils', 'git', 'python3', 'ripgrep', 'tar'], {
      noInstallRecommends: true,
    })
    .npmInstall(`@anthropic-ai/claude-code@${claudeCliVersion}`, { g: true })
    .runCmd([...users, 'claude --version'], { user: 'root' });
}

/** Builds the Claude Code template with the service; gives its id. Rejects with what the SDK says. */
export async function buildClaudeCodeTemplate(
  connection: E2bConnection,
  request: TemplateRequest,
): Promise<{ readonly templateId: string; readonly name: string }> {
  const { templateId, name } = await Template.build(claudeCodeTemplate(), request.name, {
    ...sdkOptions(connection),
    cpuCount: request.cpus,
    memoryMB: request.memoryMb,
    signal: request.signal,
    onBuildLogs: ({ message }) => request.onLog(message),
  });
  return { templateId, name };
}

/** Whether the team has a template of that name. */
export async function templateExists(connection: E2bConnection, name: string): Promise<boolean> {
  return Template.exists(name, { ...sdkOptions(connection), requestTimeoutMs: 15_000 });
}
