import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<0 | 1>('drop-lock', 1);

/** Drops a lock taken with SET NX, unless somebody else has it by now. */
export async function dropLock(redis: Redis, key: string, token: string): Promise<boolean> {
  return (await script.run(redis, [key], [token])) === 1;
}
