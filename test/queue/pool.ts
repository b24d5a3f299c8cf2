import { Redis } from 'ioredis';
import { taskSchema, type Task } from '../../src/contracts/index.ts';
import {
  createQueue,
  groupField,
  parseRedisUrl,
  queueNames,
  startEpisodeWorker,
  startFeeder,
  startReconciler,
  type ClosedGroup,
  type EpisodeWorkerOptions,
  type QueueOptions,
  type QueueTimings,
  type RolloutQueue,
  type RunSettings,
} from '../../src/queue/index.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { lane } from './outputs.ts';

export { infraFailureOf, lane, outputOf, summaryOf } from './outputs.ts';

/** Short enough for a test, in the same order as the real ones. */
export const shortTimings: Partial<QueueTimings> = {
  lockMs: 1_500,
  renewMs: 300,
  stalledMs: 400,
  reconnectMs: 100,
  retryBaseMs: 20,
  retryMaxMs: 100,
  parkMs: 300,
  handBackMs: 100,
  twinMs: 10_000,
  heartbeatMs: 200,
  reconcileMs: 200,
  reconcileLockMs: 1_500,
};

export function aTask(task_key: string, extra: Record<string, unknown> = {}): Task {
  return taskSchema.parse({
    task_key,
    kind: 'claude_code',
    prompt: 'do it',
    verify: { commands: ['true'] },
    ...extra,
  });
}

export function tasksOf(count: number): Task[] {
  return Array.from({ length: count }, (_none, index) => aTask(`task-${index}`));
}

export const plainSettings: RunSettings = {
  samples: 2,
  sampling: {},
  limits: {},
  manifest_hash: null,
};

/** One test's own corner of Redis: everything opened through it is closed with it. */
export interface TestPool extends AsyncDisposable {
  readonly options: QueueOptions;
  readonly queue: RolloutQueue;
  /** A connection of the test's own. */
  readonly redis: Redis;
  worker(
    process: EpisodeWorkerOptions['process'],
    more?: Partial<EpisodeWorkerOptions>,
  ): ReturnType<typeof startEpisodeWorker>;
  feeder(): ReturnType<typeof startFeeder>;
  reconciler(): ReturnType<typeof startReconciler>;
  /** Opens run `r` and adds tasks as batch `0`. */
  add(tasks: Task[], settings?: Partial<RunSettings>): Promise<void>;
  closedGroups(run?: string): Promise<ClosedGroup[]>;
}

/** `redisUrl`: default is the suite's Redis. */
export async function openPool(
  timings: Partial<QueueTimings> = {},
  redisUrl: string = testRedisUrl(),
): Promise<TestPool> {
  const options: QueueOptions = {
    redisUrl,
    prefix: freshPrefix(),
    timings: { ...shortTimings, ...timings },
  };
  const queue = await createQueue(options);
  const redis = new Redis(parseRedisUrl(options.redisUrl));
  // Some tests take Redis away; the commands tell what is wrong.
  redis.on('error', () => undefined);
  const names = queueNames(options.prefix);
  const opened: AsyncDisposable[] = [];
  const keep = async <T extends AsyncDisposable>(part: Promise<T>): Promise<T> => {
    const started = await part;
    opened.push(started);
    return started;
  };
  return {
    options,
    queue,
    redis,
    worker: (process, more = {}) =>
      keep(startEpisodeWorker({ ...options, lanes: [lane], concurrency: 4, process, ...more })),
    feeder: () => keep(startFeeder(options)),
    reconciler: () => keep(startReconciler(options)),
    add: async (tasks, settings = {}) => {
      await queue.openRun({ run_id: 'r', settings: { ...plainSettings, ...settings } });
      await queue.addBatch({ run_id: 'r', batch_id: '0', tasks, laneOf: () => lane });
    },
    closedGroups: async (run = 'r') =>
      (await redis.xrange(names.groups(run), '-', '+')).map(
        ([, fields]) => JSON.parse(fields[fields.indexOf(groupField) + 1]!) as ClosedGroup,
      ),
    [Symbol.asyncDispose]: async () => {
      for (const part of opened.reverse()) await part[Symbol.asyncDispose]();
      await queue.close();
      const keys = await redis.keys(`${options.prefix!}:*`);
      for (let at = 0; at < keys.length; at += 1000) await redis.unlink(keys.slice(at, at + 1000));
      redis.disconnect();
    },
  };
}
