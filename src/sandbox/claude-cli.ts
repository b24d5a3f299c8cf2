import { execFile } from 'node:child_process';
import { access, constants, realpath, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** The version whose requests, switches and endings this project was made for (docs/sandboxes.md). */
export const claudeCliVersion = '2.1.332';

const versionMs = 30_000;

/** No usable Claude Code CLI; its message is for people. */
export class ClaudeCliError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ClaudeCliError';
  }
}

/** True on Linux systems without glibc: Alpine and its like. */
function hasMusl(): boolean {
  if (process.platform !== 'linux') return false;
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime === undefined;
}

/**
 * Platforms whose binary may be wanted, the likely one first. A sandbox runs Linux whatever this machine is, but its
 * image may have another C library: pass `libc` for those.
 */
export function claudeCliPackage(libc?: 'glibc' | 'musl'): string {
  const musl = (libc ?? (hasMusl() ? 'musl' : 'glibc')) === 'musl' && process.platform === 'linux';
  return `@anthropic-ai/claude-code-${process.platform}-${process.arch}${musl ? '-musl' : ''}`;
}

/**
 * Path of the CLI's binary on this machine: `explicit` when given, else that of the optional platform package.
 * Rejects with ClaudeCliError.
 */
export async function findClaudeCli(explicit: string | null = null): Promise<string> {
  if (explicit !== null) {
    const path = resolve(explicit);
    await assertExecutable(path, `the Claude Code CLI at ${path}`);
    return realpath(path);
  }
  const name = claudeCliPackage();
  let manifest: string;
  try {
    manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  } catch (cause) {
    throw new ClaudeCliError(
      `the Claude Code CLI is not installed: npm install --no-save ${name}@${claudeCliVersion}, ` +
        'or name a binary with ROLLPOOL_CLAUDE_CLI',
      { cause },
    );
  }
  const path = join(dirname(manifest), 'claude');
  await assertExecutable(path, `the Claude Code CLI of ${name}`);
  return realpath(path);
}

async function assertExecutable(path: string, what: string): Promise<void> {
  try {
    await access(path, constants.X_OK);
  } catch (cause) {
    throw new ClaudeCliError(`${what} is not there or cannot be run`, { cause });
  }
  if (!(await stat(path)).isFile()) throw new ClaudeCliError(`${what} is not a file`);
}

/** The version a binary says it has, such as `2.1.332`. Rejects with ClaudeCliError. */
export async function readClaudeCliVersion(path: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(path, ['--version'], {
      timeout: versionMs,
      env: { HOME: '/nonexistent', PATH: '/usr/bin:/bin', DISABLE_AUTOUPDATER: '1' },
    });
    const found = /^\d+\.\d+\.\d+\S*/.exec(stdout.trim());
    if (found === null) throw new Error(`it printed ${JSON.stringify(stdout.slice(0, 100))}`);
    return found[0];
  } catch (cause) {
    throw new ClaudeCliError(`${path} does not say its version: ${(cause as Error).message}`, { cause });
  }
}
