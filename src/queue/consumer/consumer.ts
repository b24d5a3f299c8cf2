import type { Redis } from 'ioredis';
import { silentLogger } from '../../observe/index.ts';
import type { QueueOptions } from '../api.ts';
import type { Delivered } from '../closed-group.ts';
import { connectPatient, disconnect } from '../connection.ts';
import { queueNames } from '../names.ts';
import { followResults, type FollowedResult, type FollowOptions } from './follow-results.ts';
import { GroupReader, type GroupsOptions, type ReadGroup } from './group-reader.ts';
import { listResults } from './list-results.ts';

/** Reads what a pool yields. Calls wait while Redis is away; signals and time-outs end them. */
export interface Consumer extends AsyncDisposable {
  /** Results as they are delivered, and before them those that were. Throws DeliveriesLostError. */
  followResults(options: FollowOptions): AsyncIterable<FollowedResult>;
  /** Every delivered result of a run, each episode once, of the newest generation. */
  listResults(run_id: string): AsyncIterable<Delivered>;
  /** Encoded sequences and trace by the name a result carries; null when they were freed. */
  fetchPayload(name: string): Promise<Buffer | null>;
  /** Closed groups that this reader has not had: at least `minGroups`, or what is there at the time-out. One call at a time. */
  groups(options: GroupsOptions): Promise<ReadGroup[]>;
  /** Says that groups were used; frees payloads that no registered reader needs any more. */
  ack(
    run_id: string,
    reader: string,
    entry_ids: readonly string[],
  ): Promise<{ acknowledged: number; freed: number }>;
  /** Readers of a run: all must acknowledge a group before its payloads are freed. */
  readers(run_id: string): Promise<string[]>;
  /** Takes a reader out; false when there was none of that name. */
  removeReader(run_id: string, reader: string): Promise<boolean>;
  close(): Promise<void>;
}

/** Opens a consumer. Rejects with RedisUnreachableError within seconds. */
export async function createConsumer(options: QueueOptions): Promise<Consumer> {
  const { redisUrl, log = silentLogger } = options;
  const names = queueNames(options.prefix);
  const redis = await connectPatient({ redisUrl, log, name: 'rollpool-consumer' });
  const blocked = new Set<Redis>();
  const reader = new GroupReader(redis, names);
  let forGroups: Redis | null = null;
  let closed: Promise<void> | null = null;

  const openBlocking = async (): Promise<Redis> => {
    if (closed !== null) throw new Error('the consumer is closed');
    const connection = await connectPatient({ redisUrl, log, name: 'rollpool-consumer-waits' });
    blocked.add(connection);
    return connection;
  };
  // A connection that waits in a blocking call does not hear QUIT.
  const drop = (connection: Redis): void => {
    blocked.delete(connection);
    connection.disconnect();
  };
  const close = async (): Promise<void> => {
    for (const connection of [...blocked]) drop(connection);
    await disconnect(redis);
  };

  /** Runs `use`, and breaks the connection's blocking call when the signal aborts. */
  const interruptible = async <T>(
    connection: Redis,
    signal: AbortSignal | undefined,
    use: () => Promise<T>,
  ): Promise<T> => {
    const stop = (): void => drop(connection);
    signal?.addEventListener('abort', stop);
    try {
      return await use();
    } catch (fault) {
      signal?.throwIfAborted();
      throw fault;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  };

  return {
    async *followResults(follow) {
      if (follow.signal?.aborted) return;
      const connection = await openBlocking();
      const stop = (): void => drop(connection);
      follow.signal?.addEventListener('abort', stop);
      try {
        yield* followResults(redis, connection, names, follow);
      } catch (fault) {
        if (!follow.signal?.aborted) throw fault;
      } finally {
        follow.signal?.removeEventListener('abort', stop);
        drop(connection);
      }
    },
    listResults: (run_id) => listResults(redis, names, run_id),
    fetchPayload: async (name) => {
      if (!name.startsWith(names.payload('', '').slice(0, -1))) {
        throw new Error(`${JSON.stringify(name)} is not the name of a payload of this pool`);
      }
      return redis.getBuffer(name);
    },
    groups: async (wanted) => {
      wanted.signal?.throwIfAborted();
      if (forGroups === null || forGroups.status === 'end') forGroups = await openBlocking();
      const connection = forGroups;
      return interruptible(connection, wanted.signal, () => reader.read(connection, wanted));
    },
    ack: (run_id, name, entry_ids) => reader.acknowledge(run_id, name, entry_ids),
    readers: async (run_id) => {
      if ((await redis.exists(names.groups(run_id))) === 0) return [];
      const groups = (await redis.xinfo('GROUPS', names.groups(run_id))) as string[][];
      return groups.map((group) => group[group.indexOf('name') + 1]!);
    },
    removeReader: async (run_id, name) => (await redis.xgroup('DESTROY', names.groups(run_id), name)) === 1,
    close: () => (closed ??= close()),
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}
