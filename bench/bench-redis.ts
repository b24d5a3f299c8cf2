import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

/** A Redis of the bench's own, with AOF everysec as in production. */
export async function startBenchRedis(): Promise<{ path: string } & AsyncDisposable> {
  const directory = await mkdtemp(join(tmpdir(), 'rollpool-bench-'));
  const path = join(directory, 'redis.sock');
  const server = spawn(
    'redis-server',
    ['--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'yes', '--dir', directory],
    { stdio: 'ignore' },
  );
  const redis = new Redis({ path, retryStrategy: () => 50, maxRetriesPerRequest: null });
  redis.on('error', () => undefined);
  await redis.ping();
  redis.disconnect();
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      server.kill('SIGTERM');
      await once(server, 'exit');
      await rm(directory, { recursive: true, force: true });
    },
  };
}
