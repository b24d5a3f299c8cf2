/**
 * No-op episodes through the whole pipeline against bare no-op BullMQ jobs, in one run at the same concurrency:
 * the ratio carries over to other machines, the rates do not. Also the Redis round trips an episode costs.
 *
 *   npx tsx bench/queue.ts [--episodes 4000] [--concurrency 200] [--json]
 *
 * Round trips are counted with INFO commandstats: calls of EVAL, EVALSHA and BZPOPMIN (none of them can be called from
 * within a script) plus one SET a payload. Everything from addBatch to the closed group is in it.
 */
import { parseArgs } from 'node:util';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { taskSchema, type Task } from '../src/contracts/index.ts';
import { createQueue, startEpisodeWorker, startFeeder, type EpisodeAttempt } from '../src/queue/index.ts';
import { nullSummary } from '../src/queue/null-summary.ts';
import { startBenchRedis } from './bench-redis.ts';

const { values } = parseArgs({
  options: {
    episodes: { type: 'string', default: '4000' },
    concurrency: { type: 'string', default: '200' },
    json: { type: 'boolean', default: false },
  },
});
const episodes = Number(values.episodes);
const concurrency = Number(values.concurrency);
const samples = 8;
const payload = Buffer.alloc(2_048, 1);

async function bare(path: string): Promise<number> {
  const connection = new Redis({ path, maxRetriesPerRequest: null });
  const queue = new Queue('bare', { connection, prefix: '{bare}' });
  for (let at = 0; at < episodes; at += 1_000) {
    await queue.addBulk(
      Array.from({ length: Math.min(1_000, episodes - at) }, (_none, index) => ({
        name: 'job',
        data: { index, text: 'x'.repeat(300) },
        opts: { jobId: `j${at + index}` },
      })),
    );
  }
  let left = episodes;
  const started = performance.now();
  await new Promise<void>((resolve) => {
    const worker = new Worker(
      'bare',
      async () => {
        left -= 1;
        if (left === 0) setImmediate(() => void worker.close().then(resolve));
        return { ok: true };
      },
      { connection, prefix: '{bare}', concurrency, removeOnComplete: { count: 500 } },
    );
    worker.on('error', () => undefined);
  });
  const seconds = (performance.now() - started) / 1_000;
  await queue.close();
  connection.disconnect();
  return episodes / seconds;
}

function* tasks(): Generator<Task> {
  for (let index = 0; index < episodes / samples; index += 1) {
    yield taskSchema.parse({
      task_key: `task-${index}`,
      kind: 'claude_code',
      prompt: 'do nothing',
      verify: { commands: ['true'] },
    });
  }
}

async function noop(attempt: EpisodeAttempt) {
  const summary = nullSummary({
    job: attempt.job,
    task: attempt.task,
    attempt: attempt.attempt,
    runSampling: attempt.run.sampling,
    worker: attempt.worker,
    queued_at: attempt.queued_at,
    started_at: attempt.queued_at,
    now: Date.now(),
    reason: { ended: 'cancelled' },
  });
  return {
    summary: { ...summary, status: 'completed', stop_reason: 'agent_done', reward: 1 } as const,
    payload,
  };
}

/** Calls of commands that only a client can send. */
async function clientCalls(redis: Redis): Promise<number> {
  const stats = await redis.info('commandstats');
  return ['eval', 'evalsha', 'bzpopmin']
    .map((name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0))
    .reduce((sum, calls) => sum + calls, 0);
}

async function pipeline(path: string): Promise<{ rate: number; addRate: number; roundTrips: number }> {
  const options = { redisUrl: `unix://${path}`, prefix: '{bench}' };
  await using queue = await createQueue(options);
  await queue.redis.config('RESETSTAT');
  await queue.openRun({ run_id: 'r', settings: { samples, sampling: {}, limits: {}, manifest_hash: null } });
  const adding = performance.now();
  await queue.addBatch({ run_id: 'r', batch_id: '0', tasks: tasks(), laneOf: () => 'claude_code-local' });
  const addRate = episodes / ((performance.now() - adding) / 1_000);
  await using feeder = await startFeeder({ ...options, concurrency });
  const started = performance.now();
  await using worker = await startEpisodeWorker({
    ...options,
    lanes: ['claude_code-local'],
    concurrency,
    process: noop,
  });
  void feeder;
  void worker;
  while (!(await queue.runStatus('r'))!.done) await new Promise((resolve) => setTimeout(resolve, 50));
  const rate = episodes / ((performance.now() - started) / 1_000);
  const roundTrips = (await clientCalls(queue.redis)) / episodes + 1;
  return { rate, addRate, roundTrips };
}

await using redis = await startBenchRedis();
const bareRate = await bare(redis.path);
const through = await pipeline(redis.path);
const report = {
  episodes,
  concurrency,
  bare_jobs_per_second: Math.round(bareRate),
  episodes_per_second: Math.round(through.rate),
  ratio: Number((through.rate / bareRate).toFixed(3)),
  added_per_second: Math.round(through.addRate),
  round_trips_per_episode: Number(through.roundTrips.toFixed(2)),
};
if (values.json) {
  console.log(JSON.stringify(report));
} else {
  console.log(`bare BullMQ jobs    ${report.bare_jobs_per_second}/s at concurrency ${concurrency}`);
  console.log(`no-op episodes      ${report.episodes_per_second}/s, ratio ${report.ratio} (at least 0.2)`);
  console.log(`adding              ${report.added_per_second} episodes/s`);
  console.log(`Redis round trips   ${report.round_trips_per_episode} an episode (at most 14)`);
  console.log(
    '                    EVAL + EVALSHA + BZPOPMIN calls of INFO commandstats, plus one SET a payload',
  );
}
if (report.ratio < 0.2 || report.round_trips_per_episode > 14) process.exitCode = 1;
