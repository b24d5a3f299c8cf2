import { promisify } from 'node:util';
import { deflate, inflate } from 'node:zlib';
import type { Redis } from 'ioredis';
import { contentHash, taskSchema, type Task } from '../contracts/index.ts';
import type { QueueNames } from './names.ts';
import { LeastRecent } from './least-recent.ts';

const pack = promisify(deflate);
const unpack = promisify(inflate);

/** Stores each task once under the hash of its normal form; gives the hashes in order. */
export async function storeTasks(redis: Redis, names: QueueNames, tasks: readonly Task[]): Promise<string[]> {
  const refs = tasks.map((task) => contentHash(task));
  const there = redis.pipeline();
  for (const ref of refs) there.exists(names.task(ref));
  const known = (await there.exec()) ?? [];
  const store = redis.pipeline();
  for (const [index, task] of tasks.entries()) {
    const [error, exists] = known[index]!;
    if (error) throw error;
    if (exists === 1) continue;
    store.set(names.task(refs[index]!), await pack(JSON.stringify(task)));
  }
  for (const [error] of (await store.exec()) ?? []) if (error) throw error;
  return refs;
}

/** Reads tasks, keeping those used last (default: 256): the samples of a group share one. */
export class TaskReader {
  readonly #redis: Redis;
  readonly #names: QueueNames;
  readonly #kept: LeastRecent<Promise<Task | null>>;

  constructor(redis: Redis, names: QueueNames, kept = 256) {
    this.#redis = redis;
    this.#names = names;
    this.#kept = new LeastRecent(kept);
  }

  /** null: no task is stored under this hash. Rejects when what is stored is not a task. */
  async read(ref: string): Promise<Task | null> {
    const reading = this.#kept.get(ref, () => this.#read(ref));
    try {
      const task = await reading;
      if (task === null) this.#kept.forget(ref);
      return task;
    } catch (error) {
      this.#kept.forget(ref);
      throw error;
    }
  }

  async #read(ref: string): Promise<Task | null> {
    const packed = await this.#redis.getBuffer(this.#names.task(ref));
    if (packed === null) return null;
    return taskSchema.parse(JSON.parse((await unpack(packed)).toString('utf8')));
  }
}
