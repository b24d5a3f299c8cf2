import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { until } from './wait.ts';

/** A redis-server of one test's own, with the append-only file as in production, that the test may kill or stop. */
export interface OwnRedis extends AsyncDisposable {
  readonly path: string;
  readonly url: string;
  /** SIGKILL; what it wrote to its append-only file stays. */
  kill(): Promise<void>;
  /** Starts it again over the same data and waits until it answers. */
  start(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing is answered until `goOn`. */
  freeze(): void;
  goOn(): void;
  /** Waits until nothing that Redis has acknowledged is only in its memory. */
  written(): Promise<void>;
}

export async function startOwnRedis(): Promise<OwnRedis> {
  const directory = await mkdtemp(join(tmpdir(), `rp-redis-${process.pid}-`));
  const path = join(directory, 'redis.sock');
  let server: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    server = spawn(
      'redis-server',
      ['--port', '0', '--unixsocket', path, '--dir', directory, '--save', '', '--appendonly', 'yes'],
      { stdio: 'ignore' },
    );
    await ask((redis) => redis.ping());
  };
  const ask = async <T>(question: (redis: Redis) => Promise<T>): Promise<T> => {
    const redis = new Redis({ path, maxRetriesPerRequest: null, retryStrategy: () => 20 });
    redis.on('error', () => undefined);
    try {
      return await question(redis);
    } finally {
      redis.disconnect();
    }
  };
  const kill = async (): Promise<void> => {
    if (server === undefined) return;
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
    server = undefined;
  };

  await start();
  return {
    path,
    url: `unix://${path}`,
    kill,
    start,
    freeze: () => void server?.kill('SIGSTOP'),
    goOn: () => void server?.kill('SIGCONT'),
    written: () =>
      ask(async (redis) => {
        await until(async () => {
          const info = await redis.info('persistence');
          return ['aof_buffer_length', 'aof_pending_bio_fsync'].every((name) =>
            info.includes(`${name}:0\r\n`),
          );
        }, 'Redis has written what it acknowledged');
      }),
    [Symbol.asyncDispose]: async () => {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
