import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observe/index.ts';
import { startEmbeddedRedis, type EmbeddedRedis } from '../../../src/queue/embedded-redis/index.ts';
import { lookUp, recordOf } from '../../../src/queue/embedded-redis/process-record.ts';
import { until } from '../../support/wait.ts';

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
});
afterEach(() => rm(dataDir, { recursive: true }));

const start = (): Promise<EmbeddedRedis> => startEmbeddedRedis({ dataDir, log: silentLogger, watchMs: 50 });
const socketOf = (url: string): string => url.replace('unix://', '');
const gone = (pid: number): boolean => recordOf(pid) === null;

async function withClient<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({ path: socketOf(url), retryStrategy: () => 50, maxRetriesPerRequest: null });
  redis.on('error', () => {});
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

interface Held {
  readonly child: ChildProcess;
  readonly url: string;
  readonly pid: number;
  readonly adopted: boolean;
}

async function holdInChild(): Promise<Held> {
  const script = join(import.meta.dirname, 'hold-redis.ts');
  const child = spawn(process.execPath, ['--import', 'tsx', script, dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { child, ...(JSON.parse(line) as Omit<Held, 'child'>) };
}

async function end(held: Held, how: 'SIGKILL' | 'exit' | 'leave'): Promise<void> {
  const exited = once(held.child, 'exit');
  if (how === 'SIGKILL') held.child.kill('SIGKILL');
  else held.child.stdin?.write(`${how}\n`);
  await exited;
}

it('is durable, evicts nothing, has no TCP port, and sits in a directory of its owner alone', async () => {
  await using redis = await start();
  expect(redis.adopted).toBe(false);
  const settings = await withClient(redis.url, async (client) =>
    Object.fromEntries(
      await Promise.all(
        ['appendonly', 'appendfsync', 'maxmemory-policy', 'port', 'save'].map(async (name) => [
          name,
          (await client.config('GET', name))[1],
        ]),
      ),
    ),
  );
  expect(settings).toEqual({
    appendonly: 'yes',
    appendfsync: 'everysec',
    'maxmemory-policy': 'noeviction',
    port: '0',
    save: '',
  });
  expect((await stat(dirname(socketOf(redis.url)))).mode & 0o777).toBe(0o700);
  expect(Buffer.byteLength(socketOf(redis.url))).toBeLessThanOrEqual(100);
});

it('does not get the Ctrl-C of the terminal its user sits at', async () => {
  await using redis = await start();
  const group = execFileSync('ps', ['-o', 'pgid=', '-p', `${redis.pid()}`], { encoding: 'utf8' });
  expect(group.trim()).toBe(`${redis.pid()}`);
});

it('leaves nothing but its data behind, and the data are there the next time', async () => {
  let first;
  {
    await using redis = await start();
    first = { url: redis.url, pid: redis.pid() };
    await withClient(redis.url, (client) => client.set('kept', 'yes'));
  }
  expect(gone(first.pid)).toBe(true);
  expect(existsSync(dirname(socketOf(first.url)))).toBe(false);
  await using redis = await start();
  expect(redis.url).toBe(first.url);
  expect(await withClient(redis.url, (client) => client.get('kept'))).toBe('yes');
});

it('is one server for all that ask at once, until the last of them leaves', async () => {
  const all = await Promise.all([start(), start(), start()]);
  const child = await holdInChild();
  const pids = new Set([...all.map((redis) => redis.pid()), child.pid]);
  expect(pids.size).toBe(1);
  expect(all.filter((redis) => !redis.adopted)).toHaveLength(1);
  for (const redis of all) await redis[Symbol.asyncDispose]();
  expect(await withClient(child.url, (client) => client.ping())).toBe('PONG');
  await end(child, 'leave');
  expect(gone(child.pid)).toBe(true);
});

it('left behind by a killed process is adopted with its data, and then stopped', async () => {
  const orphaned = await holdInChild();
  await withClient(orphaned.url, (client) => client.set('kept', 'yes'));
  await end(orphaned, 'SIGKILL');
  expect(gone(orphaned.pid)).toBe(false);
  {
    await using redis = await start();
    expect({ adopted: redis.adopted, pid: redis.pid() }).toEqual({ adopted: true, pid: orphaned.pid });
    expect(await withClient(redis.url, (client) => client.get('kept'))).toBe('yes');
  }
  expect(gone(orphaned.pid)).toBe(true);
});

it('left behind without a record is found by its socket', async () => {
  const orphaned = await holdInChild();
  await end(orphaned, 'SIGKILL');
  await rm(join(dataDir, 'server.json'));
  await using redis = await start();
  expect(redis.pid()).toBe(orphaned.pid);
});

it('stops when its process exits without a word', async () => {
  const held = await holdInChild();
  await end(held, 'exit');
  await until(() => gone(held.pid), 'the server has ended');
  expect(existsSync(dirname(socketOf(held.url)))).toBe(false);
});

it('is not taken for a process that got its number', async () => {
  const bystander = spawn('sleep', ['60'], { stdio: 'ignore' });
  const exited = once(bystander, 'exit');
  await once(bystander, 'spawn');
  const record = recordOf(bystander.pid ?? 0);
  await writeFile(
    join(dataDir, 'server.json'),
    JSON.stringify({ ...record, started: 'before', socket: '/tmp/none.sock' }),
  );
  {
    await using redis = await start();
    expect(redis.adopted).toBe(false);
    expect(redis.pid()).not.toBe(bystander.pid);
  }
  expect(record === null ? 'dead' : lookUp(record)).toBe('alive');
  bystander.kill();
  await exited;
});

it('killed in the middle of its work is started again over the same data, at the same place', async () => {
  await using redis = await start();
  const before = redis.pid();
  await withClient(redis.url, async (client) => {
    await client.set('kept', 'yes');
    process.kill(before, 'SIGKILL');
    await until(() => redis.pid() !== before, 'another server runs');
    expect(await client.get('kept')).toBe('yes');
  });
});

it('without a binary says what to install', async () => {
  const refused = startEmbeddedRedis({ dataDir, log: silentLogger, binary: 'no-such-redis-server' });
  await expect(refused).rejects.toMatchObject({ code: 'no_binary' });
  await expect(refused).rejects.toThrow(
    /no-such-redis-server[^]*apt-get install redis-server[^]*brew install redis[^]*docker run/,
  );
});

it('over data it cannot read says so with the end of its log, and leaves no process', async () => {
  await mkdir(join(dataDir, 'appendonlydir'));
  await writeFile(join(dataDir, 'appendonlydir', 'appendonly.aof.manifest'), 'nonsense\n');
  await expect(start()).rejects.toThrow(/does not start[^]*manifest/i);
  expect(existsSync(join(dataDir, 'server.json'))).toBe(false);
});

it('whose data another machine uses is refused', async () => {
  await writeFile(
    join(dataDir, 'server.json'),
    JSON.stringify({ pid: 1, started: 'x', host: 'some-other-host', socket: '/tmp/none.sock' }),
  );
  await expect(start()).rejects.toMatchObject({ code: 'elsewhere' });
});
