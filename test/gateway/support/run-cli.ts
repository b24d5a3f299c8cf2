import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { arch, platform, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { claudeCodeCommand } from '../../../src/agents/claude-code/command.ts';
import { resolveLimits, type Limits } from '../../../src/contracts/index.ts';
import type { GatewaySession } from '../../../src/gateway/session.ts';

/** The pinned CLI of this checkout; null where its optional package is not installed. */
export function cliPath(): string | null {
  const path = fileURLToPath(
    new URL(
      `../../../node_modules/@anthropic-ai/claude-code-${platform()}-${arch()}/claude`,
      import.meta.url,
    ),
  );
  return existsSync(path) ? path : null;
}

export interface CliRun extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly workdir: string;
  /** The exit code, and the events of its stream. */
  readonly ended: Promise<{ code: number | null; events: Record<string, unknown>[]; stderr: string }>;
}

/**
 * Runs the real CLI over the session's Unix socket, in an empty directory of its own. `moreTools`: names of tools
 * beside those of an episode, such as `Agent`.
 */
export async function runCli(
  session: Pick<GatewaySession, 'socket_dir' | 'bearer'>,
  prompt: string,
  limits: Limits = {},
  moreTools: readonly string[] = [],
): Promise<CliRun> {
  const directory = await mkdtemp(join(tmpdir(), `rp-cli-${process.pid}-`));
  const command = claudeCodeCommand({
    cliPath: cliPath()!,
    prompt,
    limits: resolveLimits(limits),
    episodeId: directory,
    attempt: 1,
    gatewaySocket: join(session.socket_dir!, 'gw.sock'),
    bearer: session.bearer,
    home: directory,
  });
  const argv = command.argv.map((word, at) =>
    command.argv[at - 1] === '--tools' ? [word, ...moreTools].join(',') : word,
  );
  const child = spawn(argv[0]!, argv.slice(1), {
    cwd: directory,
    env: { PATH: process.env['PATH']!, ...command.env },
    detached: true,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  child.stdin.on('error', () => {});
  child.stdin.end(command.stdin);
  const ended = new Promise<{ code: number | null; events: Record<string, unknown>[]; stderr: string }>(
    (resolve) =>
      child.once('close', (code) => {
        const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
        resolve({ code, stderr, events: lines.map((line) => JSON.parse(line) as Record<string, unknown>) });
      }),
  );
  return {
    child,
    workdir: directory,
    ended,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
