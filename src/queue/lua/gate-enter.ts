import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

type Reply = ['open' | 'lease' | 'wait', number];
const script = new LuaScript<Reply>('gate-enter', 1);

/** `at`: epoch milliseconds by Redis. `ms`: until asking again makes sense. */
export type GateEntry =
  | { readonly verdict: 'open' | 'lease'; readonly at: number }
  | { readonly verdict: 'wait'; readonly ms: number };

/** Asks to try a creation (gate-enter.lua). The same token again gets the same lease. */
export async function enterGate(
  redis: Redis,
  gate: string,
  token: string,
  pace: { leaseMs: number; quietMs: number; pollMs: number },
): Promise<GateEntry> {
  const [verdict, ms] = await script.run(redis, [gate], [token, pace.leaseMs, pace.quietMs, pace.pollMs]);
  return verdict === 'wait' ? { verdict, ms } : { verdict, at: ms };
}
