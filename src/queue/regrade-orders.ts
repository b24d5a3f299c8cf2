import type { Redis } from 'ioredis';
import { regradeOrderSchema, type RegradeOrder } from '../contracts/index.ts';
import type { QueueNames } from './names.ts';

const fieldsAtOnce = 500;

/** Stores what each episode of a run grades again; the same order again changes nothing. */
export async function orderRegrades(
  redis: Redis,
  names: QueueNames,
  run_id: string,
  orders: ReadonlyMap<string, RegradeOrder>,
): Promise<void> {
  const entries = [...orders];
  for (let at = 0; at < entries.length; at += fieldsAtOnce) {
    const fields = entries.slice(at, at + fieldsAtOnce).flatMap(([id, order]) => [id, JSON.stringify(order)]);
    await redis.hset(names.regrades(run_id), ...fields);
  }
}

/** null: none is stored for this episode. */
export async function readRegradeOrder(
  redis: Redis,
  names: QueueNames,
  run_id: string,
  episode_id: string,
): Promise<RegradeOrder | null> {
  const text = await redis.hget(names.regrades(run_id), episode_id);
  return text === null ? null : regradeOrderSchema.parse(JSON.parse(text));
}
