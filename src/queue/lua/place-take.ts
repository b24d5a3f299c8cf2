import type { Redis } from 'ioredis';
import { LuaScript } from './script.ts';

const script = new LuaScript<[0 | 1, number]>('place-take', 4);

/** The keys of a provider's places, and the channel on which whoever is next is named. */
export interface PlaceKeys {
  readonly leases: string;
  readonly line: string;
  readonly seen: string;
  readonly pace: string;
  readonly channel: string;
}

/** `base`: `QueueNames.places`. */
export function placeKeys(base: string): PlaceKeys {
  return {
    leases: `${base}:leases`,
    line: `${base}:line`,
    seen: `${base}:seen`,
    pace: `${base}:pace`,
    channel: `${base}:free`,
  };
}

/** One asking. All times are durations in milliseconds. */
export interface PlaceAsking {
  readonly token: string;
  readonly asker: string;
  /** How long the oldest of those who wait in this process has waited. */
  readonly waitedMs: number;
  /** The same of the next; null: there is none. */
  readonly nextWaitedMs: number | null;
  readonly leaseMs: number;
  /** null: any number. */
  readonly places: number | null;
  /** Time from one to the next. */
  readonly spacingMs: number;
  readonly believedMs: number;
  readonly graceMs: number;
  readonly longestWaitMs: number;
}

/** Asks for a place (place-take.lua); null when the token holds one, else the milliseconds until asking again. */
export async function takePlace(redis: Redis, keys: PlaceKeys, asking: PlaceAsking): Promise<number | null> {
  const [taken, ms] = await script.run(
    redis,
    [keys.leases, keys.line, keys.seen, keys.pace],
    [
      asking.token,
      asking.asker,
      Math.floor(asking.waitedMs),
      asking.nextWaitedMs === null ? -1 : Math.floor(asking.nextWaitedMs),
      asking.leaseMs,
      asking.places ?? 0,
      asking.spacingMs,
      asking.believedMs,
      asking.graceMs,
      asking.longestWaitMs,
      keys.channel,
    ],
  );
  return taken === 1 ? null : ms;
}
