import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../observe/index.ts';
import { Refusal } from '../http/refusal.ts';
import { Instance } from './instance.ts';
import type { InstancePlan } from './instance-request.ts';

/** Ended instances that are still told of. */
const remembered = 2_000;
/** Longest wait a timer can do, in milliseconds; what lives longer is looked at again then. */
const longestTimer = 2 ** 31 - 1;

export interface InstancesOptions {
  /** Each instance has a directory of its own below it. */
  readonly directory: string;
  /** Live ones at once. */
  readonly limit: number;
  /** Told of one that has ended, before its data goes. */
  ended(instance: Instance): Promise<void>;
  readonly log: Logger;
}

/** The instance limit was reached: words that the vendor's SDK takes the numbers from. */
export function limitReached(running: number, limit: number): Refusal {
  return new Refusal(
    403,
    `Instance limit reached. You have ${running} running instances out of a maximum of ${limit}. ` +
      'Close an instance and try again.',
  );
}

/** All instances of a server, live and ended. */
export class Instances {
  readonly #options: InstancesOptions;
  readonly #live = new Map<string, Instance>();
  readonly #ended = new Map<string, Instance>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** Creations and endings under way. */
  readonly #moving = new Set<Promise<unknown>>();
  #closed = false;

  constructor(options: InstancesOptions) {
    this.#options = options;
  }

  get limit(): number {
    return this.#options.limit;
  }

  live(): readonly Instance[] {
    return [...this.#live.values()];
  }

  /** Live ones and those that are remembered, oldest first. */
  all(): readonly Instance[] {
    return [...this.#ended.values(), ...this.#live.values()];
  }

  find(id: string): Instance | undefined {
    return this.#live.get(id) ?? this.#ended.get(id);
  }

  /** Throws 403 at the limit. `made` is told its id before there is anything to it. */
  async create(plan: InstancePlan, made: (id: string) => void = () => undefined): Promise<Instance> {
    const { directory, limit } = this.#options;
    if (this.#closed) throw new Refusal(503, 'Service Unavailable');
    if (this.#live.size >= limit) throw limitReached(this.#live.size, limit);
    const instance = new Instance(randomBytes(6).toString('hex'), plan);
    this.#live.set(instance.id, instance);
    made(instance.id);
    await this.#follow(this.#start(instance, join(directory, instance.id)));
    return instance;
  }

  /** Ends it and waits until nothing is left of it. Safe to repeat. */
  async end(instance: Instance, status: 'stopped' | 'error', why: string): Promise<void> {
    if (this.#live.delete(instance.id)) {
      this.#ended.set(instance.id, instance);
      for (const id of this.#ended.keys()) {
        if (this.#ended.size <= remembered) break;
        this.#ended.delete(id);
      }
      clearTimeout(this.#timers.get(instance.id));
      this.#timers.delete(instance.id);
      this.#options.log.debug({ instance: instance.id, why }, 'local fleet: an instance ended');
      await this.#follow(this.#remove(instance, status));
    }
  }

  /** Moves the time by which the next heartbeat is due. Gives it, in epoch milliseconds, or null without heartbeats. */
  beat(instance: Instance): number | null {
    const { heartbeat_interval } = instance.plan;
    if (heartbeat_interval === null) return null;
    instance.heartbeat = new Date();
    this.#watch(instance);
    return instance.heartbeat.getTime() + heartbeat_interval * 1_000;
  }

  /** Ends all, and waits for what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.live().map((instance) => this.end(instance, 'stopped', 'the server closes')));
    await Promise.allSettled(this.#moving);
  }

  async #follow(move: Promise<void>): Promise<void> {
    this.#moving.add(move);
    try {
      await move;
    } finally {
      this.#moving.delete(move);
    }
  }

  async #start(instance: Instance, directory: string): Promise<void> {
    const { environment, data_key, variables } = instance.plan;
    try {
      await mkdir(directory, { recursive: true });
      const database = await environment.open({ directory, data_key, variables });
      if (!instance.live) {
        await database[Symbol.asyncDispose]();
        await rm(directory, { recursive: true, force: true });
        throw new Refusal(503, `Instance '${instance.id}' was deleted while it was created`);
      }
      instance.start(database);
    } catch (error) {
      await this.end(instance, 'error', 'it could not be created');
      throw error;
    }
    this.#watch(instance);
  }

  async #remove(instance: Instance, status: 'stopped' | 'error'): Promise<void> {
    try {
      const ending = instance.end(status);
      await this.#options.ended(instance);
      await ending;
      await rm(join(this.#options.directory, instance.id), { recursive: true, force: true });
    } catch (error) {
      this.#options.log.warn({ err: error, instance: instance.id }, 'local fleet: an instance left files');
    }
  }

  /** When its time is up, by its time to live or for want of a heartbeat, and why. */
  #deadline(instance: Instance): { at: number; why: string } {
    const { ttl_seconds, heartbeat_interval } = instance.plan;
    const created = instance.created.getTime();
    const beaten = (instance.heartbeat ?? instance.created).getTime();
    const ttl = ttl_seconds === null ? Infinity : created + ttl_seconds * 1_000;
    const beat = heartbeat_interval === null ? Infinity : beaten + heartbeat_interval * 1_000;
    return ttl <= beat
      ? { at: ttl, why: 'its time to live was over' }
      : { at: beat, why: 'a heartbeat was missed' };
  }

  #watch(instance: Instance): void {
    clearTimeout(this.#timers.get(instance.id));
    const { at, why } = this.#deadline(instance);
    if (at === Infinity || !instance.live) return;
    const wait = at - Date.now();
    const timer = setTimeout(
      () => {
        if (wait > longestTimer) this.#watch(instance);
        else void this.end(instance, 'stopped', why);
      },
      Math.min(Math.max(wait, 0), longestTimer),
    );
    this.#timers.set(instance.id, timer);
  }
}
