import type { Redis } from 'ioredis';
import { RunConflictError } from '../api.ts';
import { groupField, type ClosedGroup } from '../closed-group.ts';
import { acknowledgeGroup } from '../lua/ack-group.ts';
import { checkName, type QueueNames } from '../names.ts';
import { decodeEntries, decodeRead, type StreamEntry } from './stream-entries.ts';

export interface GroupsOptions {
  readonly run_id: string;
  /** Name under which this trainer reads; each reader gets every group. It is registered by its first read. */
  readonly reader: string;
  /** Name of this process among those that share the reader's groups; the same after a restart. Default: `main`. */
  readonly consumer?: string;
  /** Waits for so many groups. Default: 1. */
  readonly minGroups?: number;
  /** Takes at most so many. Default: `minGroups`. */
  readonly maxGroups?: number;
  /** Milliseconds to wait; then what is there is given, also nothing. Default: 60,000. */
  readonly timeoutMs?: number;
  /** Milliseconds after which a group that another consumer took and did not acknowledge is given again. Default: 1,800,000. */
  readonly redeliverAfterMs?: number;
  readonly signal?: AbortSignal;
}

/** A closed group as a reader gets it. Readers drop groups whose `group_id` they have used. */
export interface ReadGroup {
  /** What `ack` takes. */
  readonly entry_id: string;
  readonly group: ClosedGroup;
}

/** What is read within one blocking call, so that a signal or a deadline is heeded. */
const blockMs = 1_000;

/** One name under which this process reads. */
interface Holder {
  /** Entries that the caller has and did not acknowledge. */
  readonly held: Set<string>;
  /** False while Redis may hold entries as given to this name that the caller never got: after a start or a failure. */
  recovered: boolean;
}

const ownAtOnce = 64;

/** Reads of one process from the streams of closed groups. Calls for one reader must not overlap. */
export class GroupReader {
  readonly #redis: Redis;
  readonly #names: QueueNames;
  /** By `run reader consumer`. */
  readonly #holders = new Map<string, Holder>();

  constructor(redis: Redis, names: QueueNames) {
    this.#redis = redis;
    this.#names = names;
  }

  /** `blocking` is a connection on which nothing else waits. */
  async read(blocking: Redis, options: GroupsOptions): Promise<ReadGroup[]> {
    const { run_id, reader, consumer = 'main', minGroups = 1, signal } = options;
    const maxGroups = Math.max(minGroups, options.maxGroups ?? minGroups);
    const deadline = Date.now() + (options.timeoutMs ?? 60_000);
    checkName('reader', reader);
    checkName('consumer', consumer);
    await this.#register(run_id, reader);
    const holder = this.#holderOf(`${run_id} ${reader} ${consumer}`);
    const taken: ReadGroup[] = [];
    const take = (entries: readonly StreamEntry<ClosedGroup>[]): void => {
      for (const { id, value } of entries) {
        if (holder.held.has(id)) continue;
        holder.held.add(id);
        taken.push({ entry_id: id, group: value });
      }
    };
    try {
      if (!holder.recovered) take(await this.#recover(holder, run_id, reader, consumer, maxGroups));
      if (taken.length < maxGroups) {
        take(await this.#abandoned(options, consumer, maxGroups - taken.length));
      }
      while (taken.length < maxGroups) {
        signal?.throwIfAborted();
        const left = deadline - Date.now();
        const wait = taken.length < minGroups ? Math.min(blockMs, left) : 0;
        const entries = await this.#fresh(blocking, options, consumer, maxGroups - taken.length, wait);
        take(entries);
        if (entries.length === 0 && (taken.length >= minGroups || Date.now() >= deadline)) break;
      }
      return taken;
    } catch (fault) {
      // Redis counts them as given, and so may it count a reply that was lost on its way.
      for (const { entry_id } of taken) holder.held.delete(entry_id);
      holder.recovered = false;
      throw fault;
    }
  }

  /**
   * Says that groups were used. Payloads that no registered reader needs any more are freed.
   *
   * @returns how many were acknowledged now, and how many payloads that freed.
   */
  async acknowledge(
    run_id: string,
    reader: string,
    entry_ids: readonly string[],
  ): Promise<{ acknowledged: number; freed: number }> {
    let acknowledged = 0;
    let freed = 0;
    for (const entry_id of entry_ids) {
      const raw = await this.#redis.xrange(this.#names.groups(run_id), entry_id, entry_id);
      const [entry] = decodeEntries<ClosedGroup>(raw, groupField);
      if (entry === undefined) continue;
      const done = await acknowledgeGroup(this.#redis, this.#names, reader, entry_id, entry.value);
      if (done.acknowledged) acknowledged += 1;
      freed += done.freed;
      for (const [name, { held }] of this.#holders) {
        if (name.startsWith(`${run_id} ${reader} `)) held.delete(entry_id);
      }
    }
    return { acknowledged, freed };
  }

  async #register(run_id: string, reader: string): Promise<void> {
    if ((await this.#redis.exists(this.#names.run(run_id))) === 0) {
      throw new RunConflictError('run_unknown', 'run_id', `there is no run ${run_id}`);
    }
    try {
      // From the first group on: a reader that comes late misses nothing but payloads that others have freed.
      await this.#redis.xgroup('CREATE', this.#names.groups(run_id), reader, '0', 'MKSTREAM');
    } catch (fault) {
      if (!String(fault).includes('BUSYGROUP')) throw fault;
    }
  }

  #holderOf(name: string): Holder {
    const holder = this.#holders.get(name) ?? { held: new Set(), recovered: false };
    this.#holders.set(name, holder);
    return holder;
  }

  /** What Redis holds as given to this consumer and the caller does not have, at most `count`. */
  async #recover(
    holder: Holder,
    run_id: string,
    reader: string,
    consumer: string,
    count: number,
  ): Promise<StreamEntry<ClosedGroup>[]> {
    const key = this.#names.groups(run_id);
    const found: StreamEntry<ClosedGroup>[] = [];
    for (let after = '0'; ;) {
      const reply = await this.#redis.xreadgroup(
        ...(['GROUP', reader, consumer, 'COUNT', ownAtOnce, 'STREAMS', key, after] as const),
      );
      const entries = decodeRead<ClosedGroup>(reply, groupField);
      for (const entry of entries) {
        if (holder.held.has(entry.id)) continue;
        if (found.length === count) return found;
        found.push(entry);
      }
      const last = entries.at(-1);
      if (last === undefined) break;
      after = last.id;
    }
    holder.recovered = true;
    return found;
  }

  /** What another consumer took too long ago, at most `count`. */
  async #abandoned(
    options: GroupsOptions,
    consumer: string,
    count: number,
  ): Promise<StreamEntry<ClosedGroup>[]> {
    const { run_id, reader, redeliverAfterMs = 1_800_000 } = options;
    const found: StreamEntry<ClosedGroup>[] = [];
    let from = '0';
    do {
      const left = count - found.length;
      const [next, raw] = (await this.#redis.xautoclaim(
        ...([this.#names.groups(run_id), reader, consumer, redeliverAfterMs, from, 'COUNT', left] as const),
      )) as [string, [string, string[] | null][]];
      found.push(...decodeEntries<ClosedGroup>(raw, groupField));
      from = next;
    } while (from !== '0-0' && found.length < count);
    return found;
  }

  async #fresh(
    blocking: Redis,
    options: GroupsOptions,
    consumer: string,
    count: number,
    waitMs: number,
  ): Promise<StreamEntry<ClosedGroup>[]> {
    const key = this.#names.groups(options.run_id);
    // BLOCK 0 would wait for ever.
    const reply =
      waitMs < 1
        ? await this.#redis.xreadgroup(
            ...(['GROUP', options.reader, consumer, 'COUNT', count, 'STREAMS', key, '>'] as const),
          )
        : await blocking.xreadgroup(
            ...([
              'GROUP',
              options.reader,
              consumer,
              'COUNT',
              count,
              'BLOCK',
              Math.ceil(waitMs),
              'STREAMS',
              key,
              '>',
            ] as const),
          );
    return decodeRead<ClosedGroup>(reply, groupField);
  }
}
