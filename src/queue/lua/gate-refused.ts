import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<number>('gate-refused', 1);

/** Closes the gate after a refusal (gate-refused.lua); gives the milliseconds for which it is closed. */
export function refuseGate(
  redis: Redis,
  gate: string,
  entered: { token: string; at: number },
  pause: {
    /** null: the gate's own. */
    askedMs: number | null;
    firstMs: number;
    longestMs: number;
    /** Times the gate's own pause. */
    spread: number;
    rememberMs: number;
  },
): Promise<number> {
  return script.run(
    redis,
    [gate],
    [
      entered.token,
      entered.at,
      pause.askedMs ?? '',
      pause.firstMs,
      pause.longestMs,
      pause.spread,
      pause.rememberMs,
    ],
  );
}
