// What a Fleet episode costs in the worker: five tools, a verifier, a policy without latency, local Fleet beside it.
//   npm run build && node dist/bench/fleet.js [episodes at once]
// CPU: milliseconds of the worker process an episode, queue and results included; limit 100. The baseline is the same
// requests by the bare MCP client and fetch. RSS: 200 episodes at once in one worker process; limit 500 MB. Then no
// MCP session, no instance and no socket to either service may be left.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '../src/observe/index.ts';
import { startEmbeddedRedis } from '../src/queue/embedded-redis/index.ts';
import { createQueue, type RolloutQueue } from '../src/queue/index.ts';
import { benchTask, fleetKey } from './fleet-episode.ts';

const atOnce = Number(process.argv[2] ?? 200);
const measured = 60;
const warm = 20;
const limits = { cpu_ms: 100, rss_mb: 500 };

function start(name: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return fork(new URL(`${name}.${extension}`, import.meta.url), args, { env: { ...process.env, ...env } });
}

async function said<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, 'exit').then(([code]: unknown[]) => {
    throw new Error(`a process of the bench ended with ${String(code)}`);
  });
  ended.catch(() => {});
  const [message] = (await Promise.race([once(child, 'message'), ended])) as [T];
  return message;
}

async function ask<T>(child: ChildProcess): Promise<T> {
  child.send('figures');
  return said<T>(child);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

interface Figures {
  readonly cpu_ms: number;
  readonly rss: number;
  readonly peak: number;
  readonly sockets: number;
}

async function runEpisodes(queue: RolloutQueue, run_id: string, count: number): Promise<void> {
  await queue.openRun({ run_id, settings: { samples: 1, sampling: {}, limits: {}, manifest_hash: null } });
  const tasks = Array.from({ length: count }, (_item, index) => benchTask(`t${index}`));
  await queue.addBatch({ run_id, batch_id: '0', tasks, laneOf: () => 'fleet' });
  for (;;) {
    const status = await queue.runStatus(run_id);
    if (status?.done === true) {
      if (status.scored !== count || status.reward_mean !== 1) throw new Error('episodes failed');
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
const redis = await startEmbeddedRedis({ dataDir: join(directory, 'redis'), log: silentLogger });
const services = start('fleet-serve');
let worker: ChildProcess | undefined;
try {
  const at = await said<{ fleet: string; policy: string; model: string }>(services);
  const prefix = '{fleet-bench}';
  const openWorker = async (concurrency: number): Promise<ChildProcess> => {
    const child = start('fleet-worker', [], {
      REDIS_URL: redis.url,
      ROLLPOOL_PREFIX: prefix,
      ROLLPOOL_POLICY_URL: at.policy,
      ROLLPOOL_LANES: 'fleet',
      ROLLPOOL_CONCURRENCY: String(concurrency),
      FLEET_BASE_URL: at.fleet,
      FLEET_API_KEY: fleetKey,
    });
    await said(child);
    return child;
  };
  const queue = await createQueue({ redisUrl: redis.url, prefix });

  worker = await openWorker(1);
  await runEpisodes(queue, 'warm', warm);
  const before = await ask<Figures>(worker);
  await runEpisodes(queue, 'cpu', measured);
  const after = await ask<Figures>(worker);
  const cpu = (after.cpu_ms - before.cpu_ms) / measured;
  await stop(worker);
  const bare = await said<{ cpu_ms: number }>(
    start('fleet-bare', [at.fleet, at.policy, at.model, String(measured), String(warm)]),
  );

  worker = await openWorker(atOnce);
  const idle = await ask<Figures>(worker);
  await ask(services);
  const startedAt = performance.now();
  await runEpisodes(queue, 'many', atOnce);
  const seconds = (performance.now() - startedAt) / 1000;
  const full = await ask<Figures>(worker);
  const left = await ask<{ instances: number; sessions: number; peak: number }>(services);
  await stop(worker);
  await queue.close();

  const mb = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  console.log(
    `CPU a 5-tool episode in the worker: ${cpu.toFixed(1)} ms (limit ${limits.cpu_ms}); bare client ${bare.cpu_ms.toFixed(1)} ms: ` +
      `${(cpu / bare.cpu_ms).toFixed(2)}x`,
  );
  console.log(
    `${atOnce} at once: ${mb(full.peak)} MB RSS at the peak (limit ${limits.rss_mb}), ${mb(idle.rss)} MB idle: ` +
      `${(full.peak / idle.rss).toFixed(2)}x; ${left.peak} instances at the peak, ${seconds.toFixed(1)} s`,
  );
  console.log(
    `left: ${left.instances} instances, ${left.sessions} MCP sessions, ${full.sockets} sockets of the worker`,
  );
  const fine =
    cpu <= limits.cpu_ms &&
    full.peak / 2 ** 20 < limits.rss_mb &&
    left.instances === 0 &&
    left.sessions === 0;
  if (!fine) process.exitCode = 1;
} finally {
  if (worker !== undefined) await stop(worker);
  await stop(services);
  await redis[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
}
