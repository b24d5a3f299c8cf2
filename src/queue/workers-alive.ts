import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { WorkerRecord } from './api.ts';
import type { QueueNames } from './names.ts';

/** A name no other worker has: host, pid and a random part. */
export function newWorkerId(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9-]/g, '-')
    .slice(0, 32);
  return `${host}-${process.pid}-${randomBytes(3).toString('hex')}`;
}

/** Workers whose heartbeat has not run out. */
export async function listWorkers(redis: Redis, names: QueueNames): Promise<WorkerRecord[]> {
  const ids = await redis.zrange(names.workers, '0', '-1');
  if (ids.length === 0) return [];
  const records = await redis.mget(ids.map((id) => names.worker(id)));
  const gone = ids.filter((_id, index) => records[index] === null);
  if (gone.length > 0) await redis.zrem(names.workers, ...gone);
  return records.flatMap((text) => (text === null ? [] : [JSON.parse(text) as WorkerRecord]));
}

/** For longer than anything lives that a worker may have left behind. */
const rememberMs = 7 * 24 * 3_600_000;

/** Workers of this Redis, alive or not, that were seen in the last days. */
export async function listSeenWorkers(redis: Redis, names: QueueNames): Promise<string[]> {
  return redis.zrange(names.seenWorkers, '0', '-1');
}

/** Beats at once, then every `everyMs` and whenever the connection is back. Stopping takes the record away. */
export async function startHeartbeat(options: {
  readonly redis: Redis;
  readonly names: QueueNames;
  readonly everyMs: number;
  readonly ttlMs: number;
  readonly record: () => WorkerRecord;
}): Promise<{ stop: () => Promise<void> }> {
  const { redis, names } = options;
  const beat = async (): Promise<void> => {
    const record = options.record();
    await redis
      .multi()
      .set(names.worker(record.worker), JSON.stringify(record), 'PX', options.ttlMs)
      .zadd(names.workers, record.seen_at, record.worker)
      .zadd(names.seenWorkers, record.seen_at, record.worker)
      .zremrangebyscore(names.seenWorkers, '-inf', record.seen_at - rememberMs)
      .exec();
  };
  let beating: Promise<void> | undefined;
  const beatOnce = (): void => {
    // While Redis is away one beat waits for it; more would only pile up.
    beating ??= beat()
      .catch(() => undefined)
      .finally(() => {
        beating = undefined;
      });
  };
  await beat();
  const timer = setInterval(beatOnce, options.everyMs);
  redis.on('ready', beatOnce);
  return {
    stop: async () => {
      clearInterval(timer);
      redis.off('ready', beatOnce);
      if (redis.status !== 'ready') return;
      await beating;
      const { worker } = options.record();
      await redis.multi().del(names.worker(worker)).zrem(names.workers, worker).exec();
    },
  };
}
