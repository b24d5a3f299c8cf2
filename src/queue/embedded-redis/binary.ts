import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { EmbeddedRedisError } from './embedded-redis-error.ts';

const run = promisify(execFile);

const oldest = { major: 6, minor: 2 };

const howToInstall = [
  '  Debian, Ubuntu:  apt-get install redis-server',
  '  macOS:           brew install redis',
  '  Docker:          docker run -d -p 6379:6379 redis:7 redis-server --appendonly yes',
  '                   and REDIS_URL=redis://127.0.0.1:6379',
].join('\n');

async function versionOf(binary: string): Promise<string | null> {
  try {
    return (await run(binary, ['--version'], { timeout: 10_000 })).stdout;
  } catch (fault) {
    const { code } = fault as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES' || code === 'ENOTDIR') return null;
    throw new EmbeddedRedisError('start_failed', `${binary} --version fails: ${(fault as Error).message}`, {
      cause: fault,
    });
  }
}

/**
 * The Redis or Valkey server to start: `wanted`, else the first of both on the PATH.
 *
 * @throws EmbeddedRedisError `no_binary` with the lines that install one; `old_binary` below version 6.2.
 */
export async function findBinary(wanted?: string): Promise<string> {
  const candidates = wanted === undefined ? ['redis-server', 'valkey-server'] : [wanted];
  for (const binary of candidates) {
    const version = await versionOf(binary);
    if (version === null) continue;
    const [, major = 0, minor = 0] = (/v=(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
    if (major < oldest.major || (major === oldest.major && minor < oldest.minor)) {
      throw new EmbeddedRedisError(
        'old_binary',
        `${binary} is older than ${oldest.major}.${oldest.minor}: ${version.trim()}`,
      );
    }
    return binary;
  }
  throw new EmbeddedRedisError(
    'no_binary',
    `there is no REDIS_URL, and neither is there a ${candidates.join(' or ')} to start. Install one:\n${howToInstall}`,
  );
}
