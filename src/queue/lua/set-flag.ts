import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<0 | 1>('set-flag', 1);

/** Sets (or with null clears) a flag; false when its target does not exist or is over. A flag once set keeps its value. */
export async function setFlag(
  redis: Redis,
  key: string,
  field: 'ended' | 'paused_at' | 'closed_at',
  value: string | number | null,
): Promise<boolean> {
  return (await script.run(redis, [key], [field, value ?? ''])) === 1;
}
