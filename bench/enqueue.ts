/**
 * Enqueues a large batch from one process against bare BullMQ jobs of the same size, in one run: the ratio carries over
 * to other machines, the rates do not. Also the memory it takes: of this process, which never holds all jobs, and of
 * Redis for each queued episode.
 *
 *   npx tsx bench/enqueue.ts [--tasks 10000] [--samples 8] [--json]
 *
 * Memory of the process is its RSS, sampled every 50 ms; `growth` is its highest in the second half of the batch over
 * its highest in the first half. Each part runs in a process of its own.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { taskSchema, type EpisodeJob, type Task } from '../src/contracts/index.ts';
import { createQueue } from '../src/queue/index.ts';
import { startBenchRedis } from './bench-redis.ts';

const bytesAllowed = 2_200;
const chunk = 1_000;

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '10000' },
    samples: { type: 'string', default: '8' },
    json: { type: 'boolean', default: false },
    /** Set by the bench itself: the part this process runs, and the Redis it runs against. */
    part: { type: 'string' },
    socket: { type: 'string' },
  },
});
const tasks = Number(values.tasks);
const samples = Number(values.samples);
const episodes = tasks * samples;

interface Measured {
  readonly rate: number;
  readonly peak_rss_mb: number;
  readonly growth: number;
  readonly bytes_per_episode: number;
}

/** Tasks with a prompt of some 1.5 KB each, made as they are read. */
function* makeTasks(): Generator<Task> {
  for (let index = 0; index < tasks; index += 1) {
    const lines = Array.from(
      { length: 24 },
      (_none, line) => `Step ${line}: file_${index * 24 + line}.py has to pass test ${index}.`,
    );
    yield taskSchema.parse({
      task_key: `task-${index}`,
      kind: 'claude_code',
      prompt: lines.join('\n'),
      verify: { commands: ['pytest -q tests'] },
    });
  }
}

async function usedMemory(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))![1]);
}

/** Runs `add`, which tells how many episodes it has added so far, and watches time and memory. */
async function measure(
  redis: Redis,
  add: (progress: (added: number) => void) => Promise<void>,
): Promise<Measured> {
  const before = await usedMemory(redis);
  let added = 0;
  const peaks = [0, 0];
  const look = (): void => {
    const half = added * 2 < episodes ? 0 : 1;
    peaks[half] = Math.max(peaks[half]!, process.memoryUsage.rss());
  };
  const timer = setInterval(look, 50);
  const started = performance.now();
  await add((now) => {
    added = now;
    look();
  });
  const seconds = (performance.now() - started) / 1_000;
  clearInterval(timer);
  return {
    rate: episodes / seconds,
    peak_rss_mb: Math.max(...peaks) / 2 ** 20,
    growth: peaks[1]! / peaks[0]!,
    bytes_per_episode: ((await usedMemory(redis)) - before) / episodes,
  };
}

const parts: Record<string, (path: string) => Promise<Measured>> = {
  bare: async (path) => {
    const connection = new Redis({ path, maxRetriesPerRequest: null });
    const queue = new Queue('bare', { connection, prefix: '{bare}' });
    const job = (index: number): EpisodeJob => ({
      schema: 1,
      run_id: 'r',
      batch_id: '0',
      episode_id: `e${index}`.padEnd(25, '0'),
      group_id: `g${index}`.padEnd(25, '0'),
      group_size: samples,
      sample_index: index % samples,
      task_key: `task-${Math.floor(index / samples)}`,
      task_ref: ''.padEnd(40, '0'),
      sampling: {},
      limits: {},
      priority: 0,
    });
    try {
      return await measure(connection, async (progress) => {
        for (let at = 0; at < episodes; at += chunk) {
          const jobs = Array.from({ length: Math.min(chunk, episodes - at) }, (_none, index) => {
            const data = job(at + index);
            return { name: 'episode', data, opts: { jobId: data.episode_id, priority: 1 } };
          });
          await queue.addBulk(jobs);
          progress(at + jobs.length);
        }
      });
    } finally {
      await queue.close();
      connection.disconnect();
    }
  },
  episodes: async (path) => {
    await using queue = await createQueue({ redisUrl: `unix://${path}`, prefix: '{bench}' });
    const settings = { samples, sampling: {}, limits: {}, manifest_hash: null };
    await queue.openRun({ run_id: 'r', settings });
    return await measure(queue.redis, async (progress) => {
      await queue.addBatch({
        run_id: 'r',
        batch_id: '0',
        tasks: makeTasks(),
        laneOf: () => 'claude_code-local',
        chunk,
        onProgress: ({ added }) => progress(added),
      });
    });
  },
};

async function inOwnProcess(part: string): Promise<Measured> {
  await using redis = await startBenchRedis();
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...process.execArgv,
    fileURLToPath(import.meta.url),
    ...['--tasks', `${tasks}`, '--samples', `${samples}`, '--part', part, '--socket', redis.path],
  ]);
  return JSON.parse(stdout) as Measured;
}

async function report(): Promise<void> {
  const bare = await inOwnProcess('bare');
  const ours = await inOwnProcess('episodes');
  const summary = {
    tasks,
    samples,
    episodes_per_second: Math.round(ours.rate),
    bare_jobs_per_second: Math.round(bare.rate),
    ratio: Number((ours.rate / bare.rate).toFixed(3)),
    peak_rss_mb: Math.round(ours.peak_rss_mb),
    bare_peak_rss_mb: Math.round(bare.peak_rss_mb),
    growth: Number(ours.growth.toFixed(2)),
    redis_bytes_per_episode: Math.round(ours.bytes_per_episode),
    bare_redis_bytes_per_job: Math.round(bare.bytes_per_episode),
  };
  if (values.json) {
    console.log(JSON.stringify(summary));
  } else {
    const { episodes_per_second: rate, bare_jobs_per_second: bareRate } = summary;
    console.log(`adding         ${rate} episodes/s; bare addBulk ${bareRate} jobs/s; ratio ${summary.ratio}`);
    console.log(
      `this process   ${summary.peak_rss_mb} MB at most (bare ${summary.bare_peak_rss_mb}); ` +
        `second half over first half ${summary.growth} (at most 1.25)`,
    );
    console.log(
      `Redis          ${summary.redis_bytes_per_episode} bytes a queued episode (at most ${bytesAllowed}); ` +
        `bare ${summary.bare_redis_bytes_per_job}`,
    );
  }
  if (summary.redis_bytes_per_episode > bytesAllowed || summary.growth > 1.25) process.exitCode = 1;
}

const part = values.part === undefined ? undefined : parts[values.part];
if (part === undefined) await report();
else console.log(JSON.stringify(await part(values.socket!)));
