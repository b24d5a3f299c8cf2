import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ContainerInfo } from 'dockerode';
import { produce } from '../../producer/index.ts';
import { resultSchema, type Result } from '../../src/contracts/index.ts';
import { createConsumer } from '../../src/queue/consumer/index.ts';
import { createQueue, type RolloutQueue } from '../../src/queue/index.ts';
import { decodePayload, toResultLine } from '../../src/trajectory/index.ts';
import { docker, haveDocker, testImage } from '../sandbox/docker-daemon.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import { startCommand, type Ended, type RunningCommand } from './command.ts';

/** A pool of its own in the suite's Redis, and the real command to work on it. */
export interface Stage extends AsyncDisposable {
  readonly pool: string;
  /** Scratch directory. */
  readonly directory: string;
  /** A look at the same pool from inside the test, at no cost of a process. */
  readonly queue: RolloutQueue;
  start(args: readonly string[], env?: Readonly<Record<string, string>>): RunningCommand;
  /** Starts, waits for the end, and gives it. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** A worker that has said it is ready. */
  worker(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Worker>;
  /** As `rollpool enqueue` does, without the cost of a process. */
  enqueue(run_id: string, tasks: readonly unknown[], options?: { readonly samples?: number }): Promise<void>;
  /** As `rollpool results --follow --json` gives them. */
  results(run_id: string): Promise<Result[]>;
  file(name: string, content: unknown): Promise<string>;
  /** Containers of this pool, running or not. */
  containers(worker?: string): Promise<ContainerInfo[]>;
}

export interface Worker extends RunningCommand {
  readonly id: string;
}

function environment(pool: string, directory: string): Record<string, string> {
  const own = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined &&
      !/^(ROLLPOOL_|FLEET_|E2B_|REDIS_URL|VITEST|NODE_OPTIONS|NODE_ENV)/.test(entry[0]),
  );
  return {
    ...Object.fromEntries(own),
    REDIS_URL: testRedisUrl(),
    ROLLPOOL_PREFIX: pool,
    ROLLPOOL_SANDBOX_IMAGE: testImage,
    ROLLPOOL_STATE_DIR: join(directory, 'state'),
  };
}

export async function openStage(base: Readonly<Record<string, string>> = {}): Promise<Stage> {
  const pool = freshPrefix();
  const directory = await mkdtemp(join(tmpdir(), `rollpool-e2e-${process.pid}-`));
  // Users of sandboxes go through it.
  await chmod(directory, 0o711);
  const queue = await createQueue({ redisUrl: testRedisUrl(), prefix: pool });
  const started = new Set<RunningCommand>();
  const own = { ...environment(pool, directory), ...base };
  const start: Stage['start'] = (args, env = {}) => {
    const command = startCommand(args, { ...own, ...env });
    started.add(command);
    void command.ended.then(() => started.delete(command));
    return command;
  };
  const containers: Stage['containers'] = async (worker) => {
    if (!haveDocker) return [];
    const label = [`io.rollpool.pool=${pool}`, ...(worker ? [`io.rollpool.worker=${worker}`] : [])];
    return docker.listContainers({ all: true, filters: { label } });
  };
  const file: Stage['file'] = async (name, content) => {
    const path = join(directory, name);
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
    return path;
  };
  return {
    pool,
    directory,
    queue,
    start,
    run: (args, env) => start(args, env).ended,
    worker: async (args, env) => {
      const command = start(['worker', '--log-level', 'info', ...args], env);
      const [, id] = await command.says(/"worker":"([^"]+)".*"worker ready"/, 'the worker is ready');
      return { ...command, id: id! };
    },
    enqueue: async (run_id, tasks, options = {}) => {
      const path = await file(`${run_id}.json`, tasks);
      await produce(queue, path, { run_id, sandbox: 'docker', ...options });
    },
    results: async (run_id) => {
      await until(async () => (await queue.runStatus(run_id))?.done, `run ${run_id} is done`, 60_000);
      await using consumer = await createConsumer({ redisUrl: testRedisUrl(), prefix: pool });
      const results: Result[] = [];
      for await (const { summary, payload } of consumer.listResults(run_id)) {
        const bytes = payload === null ? null : await consumer.fetchPayload(payload);
        results.push(resultSchema.parse(toResultLine(summary, bytes === null ? null : decodePayload(bytes))));
      }
      return results;
    },
    file,
    containers,
    [Symbol.asyncDispose]: async () => {
      // Only what a failed test has left: a worker that is told to stop takes its containers with it.
      for (const command of started) command.kill('SIGTERM');
      const late = setTimeout(() => {
        for (const command of started) command.kill('SIGKILL');
      }, 15_000);
      await Promise.all([...started].map(({ ended }) => ended));
      clearTimeout(late);
      for (const { Id } of await containers()) await docker.getContainer(Id).remove({ force: true });
      await queue.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Reads lines of results; each has to be one by the schema. */
export function parseResults(text: string): Result[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => resultSchema.parse(JSON.parse(line)));
}

export async function readResults(directory: string): Promise<Result[]> {
  return parseResults(await readFile(join(directory, 'results.jsonl'), 'utf8'));
}

/** `task/sample` of each result, sorted. */
export function placesOf(results: readonly Result[]): string[] {
  return results.map(({ task_key, sample_index }) => `${task_key}/${sample_index}`).sort();
}

/** Tasks with the given keys and samples, as `placesOf` names them. */
export function places(keys: readonly string[], samples: number): string[] {
  return keys.flatMap((key) => Array.from({ length: samples }, (_none, sample) => `${key}/${sample}`)).sort();
}
