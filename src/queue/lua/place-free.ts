import type { Redis } from 'ioredis';
import type { PlaceKeys } from './place-take.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<number>('place-free', 3);

/** Gives places back and, with `asker`, leaves the line (place-free.lua); how many of the tokens held one. */
export function freePlaces(
  redis: Redis,
  keys: PlaceKeys,
  given: { readonly tokens: readonly string[]; readonly asker?: string },
): Promise<number> {
  return script.run(
    redis,
    [keys.leases, keys.line, keys.seen],
    [keys.channel, given.asker ?? '', ...given.tokens],
  );
}
