import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { createConsumer } from '../../src/queue/consumer/index.ts';
import { parseRedisUrl } from '../../src/queue/index.ts';
import { decodePayload, type Payload } from '../../src/trajectory/index.ts';
import { testRedisUrl } from '../support/redis.ts';

/** Every value of the pool in Redis, as one text. */
export async function everythingInRedis(pool: string): Promise<string> {
  const redis = new Redis(parseRedisUrl(testRedisUrl()));
  const found: unknown[] = [];
  try {
    for await (const keys of redis.scanStream({ match: `${pool.replace(/[[\]]/g, '\\$&')}*` })) {
      for (const name of keys as string[]) {
        const read = {
          string: () => redis.get(name),
          hash: () => redis.hgetall(name),
          list: () => redis.lrange(name, 0, -1),
          set: () => redis.smembers(name),
          zset: () => redis.zrange(name, '0', '-1'),
          stream: () => redis.xrange(name, '-', '+'),
          none: async () => null,
        }[await redis.type(name)];
        expect(read, name).toBeDefined();
        found.push([name, await read?.()]);
      }
    }
  } finally {
    redis.disconnect();
  }
  return JSON.stringify(found);
}

/** What the results of a run hold beside their summaries. */
export async function payloadsOf(pool: string, run: string): Promise<Payload[]> {
  await using consumer = await createConsumer({ redisUrl: testRedisUrl(), prefix: pool });
  const payloads: Payload[] = [];
  for await (const { payload } of consumer.listResults(run)) {
    payloads.push(decodePayload((await consumer.fetchPayload(payload!))!));
  }
  return payloads;
}
