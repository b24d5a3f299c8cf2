import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<0 | 1>('gate-left', 1);

/** Gives a lease back; whether it was still held. */
export async function leaveGate(redis: Redis, gate: string, token: string): Promise<boolean> {
  return (await script.run(redis, [gate], [token])) === 1;
}
