import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { connectFailFast, createQueue, startEpisodeWorker, startFeeder } from '../../src/queue/index.ts';
import { createConsumer } from '../../src/queue/consumer/index.ts';
import { startControlListener, createControl } from '../../src/queue/control/index.ts';
import { freshPrefix } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import { lane, outputOf, plainSettings, shortTimings, tasksOf } from './pool.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function startRedis(password: string): Promise<{ url: string } & AsyncDisposable> {
  const port = await freePort();
  const server = spawn(
    'redis-server',
    [
      '--port',
      `${port}`,
      '--bind',
      '127.0.0.1',
      '--requirepass',
      password,
      '--save',
      '',
      '--appendonly',
      'no',
    ],
    { stdio: 'ignore', cwd: '/' },
  );
  const exited = once(server, 'exit');
  const url = `redis://:${password}@127.0.0.1:${port}/2`;
  await until(async () => {
    try {
      await using redis = await connectFailFast({ redisUrl: url, log: silentLogger, timeoutMs: 500 });
      return (await redis.ping()) === 'PONG';
    } catch {
      return false;
    }
  }, 'Redis answers');
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      server.kill('SIGTERM');
      await exited;
    },
  };
}

it('a run goes over TCP, with a password and a database, as it goes over a Unix socket', async () => {
  await using redis = await startRedis('a-password');
  const options = { redisUrl: redis.url, prefix: freshPrefix(), timings: shortTimings };
  await using queue = await createQueue(options);
  await using consumer = await createConsumer(options);
  await using listener = await startControlListener(options);
  await using _feeder = await startFeeder(options);
  await using worker = await startEpisodeWorker({
    ...options,
    lanes: [lane],
    concurrency: 2,
    process: async (attempt) => outputOf(attempt),
  });
  listener.attach(worker);
  await createControl(queue).setPolicy({ version: 5 });
  await queue.openRun({ run_id: 'r', settings: plainSettings });
  await queue.addBatch({ run_id: 'r', batch_id: '0', tasks: tasksOf(3), laneOf: () => lane });
  const groups = await consumer.groups({ run_id: 'r', reader: 'trainer', minGroups: 3, timeoutMs: 30_000 });
  expect(groups.flatMap(({ group }) => group.results)).toHaveLength(6);
  for (const { payload } of groups.flatMap(({ group }) => group.results)) {
    expect(await consumer.fetchPayload(payload!)).not.toBeNull();
  }
  const ids = groups.map(({ entry_id }) => entry_id);
  expect(await consumer.ack('r', 'trainer', ids)).toEqual({ acknowledged: 3, freed: 6 });
  await until(() => listener.policy.version('any') === 5, 'the version was heard');
});
