import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<0 | 1>('gate-freed', 1);

/** Ends the gate's own pause (gate-freed.lua); whether there was one. */
export async function freeGate(redis: Redis, gate: string): Promise<boolean> {
  return (await script.run(redis, [gate], [])) === 1;
}
