import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<'open' | 'half_open' | 'old'>('gate-passed', 1);

/** Tells the gate of a creation that succeeded (gate-passed.lua); gives the state it is in then. */
export function passGate(
  redis: Redis,
  gate: string,
  entered: { token: string; at: number },
  passesToOpen: number,
): Promise<'open' | 'half_open' | 'old'> {
  return script.run(redis, [gate], [entered.token, entered.at, passesToOpen]);
}
