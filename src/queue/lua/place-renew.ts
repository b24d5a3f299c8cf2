import type { Redis } from 'ioredis';
import type { PlaceKeys } from './place-take.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<number>('place-renew', 1);

/** Renews places (place-renew.lua); how many of them had run out or were lost. */
export function renewPlaces(
  redis: Redis,
  keys: PlaceKeys,
  tokens: readonly string[],
  leaseMs: number,
): Promise<number> {
  return script.run(redis, [keys.leases], [leaseMs, ...tokens]);
}
