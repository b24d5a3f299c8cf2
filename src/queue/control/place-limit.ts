import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Place, PlaceLimit } from '../../contracts/index.ts';
import { silentLogger } from '../../observe/index.ts';
import type { QueueOptions } from '../api.ts';
import { connectPatient, disconnect } from '../connection.ts';
import { freePlaces } from '../lua/place-free.ts';
import { placeKeys, takePlace } from '../lua/place-take.ts';
import { checkName, queueNames } from '../names.ts';
import { within } from '../worker/within.ts';
import { HeldPlaces } from './place-limit-leases.ts';
import { defaultPlacePace, type PlacePace } from './place-limit-pace.ts';

export interface PlaceLimitOptions extends QueueOptions {
  /** Name of the provider that is limited, one limit for each: letters, digits and `._-`. */
  readonly provider: string;
  /** Most at once over all workers; null: any number. */
  readonly places: number | null;
  /** New ones a second over all workers, evenly spread; null: any number. */
  readonly createsPerSecond: number | null;
  /** Over `defaultPlacePace`. */
  readonly pace?: Partial<PlacePace>;
}

/** A limit that all workers with the same Redis, prefix and provider share. Those who wait are let go when it closes. */
export interface SharedPlaceLimit extends PlaceLimit, AsyncDisposable {
  /** What is held then runs out by itself. */
  close(): Promise<void>;
}

interface Waiter {
  /** Since when it waits, by this process's steady clock. */
  readonly since: number;
  admit(place: Place): void;
  refuse(reason: Error): void;
}

const closing = (): Error => new Error('the place limit is closed');

/**
 * Opens the limit in this process, over two Redis connections of its own. Rejects with RedisUnreachableError at the
 * start; later, while Redis is away, who asks for a place waits for it, and held ones are renewed when it is back.
 */
export async function createPlaceLimit(options: PlaceLimitOptions): Promise<SharedPlaceLimit> {
  const { redisUrl, provider, places, createsPerSecond, log = silentLogger } = options;
  checkName('provider', provider);
  const pace: PlacePace = { ...defaultPlacePace, ...options.pace };
  const keys = placeKeys(queueNames(options.prefix).places(provider));
  const redis = await connectPatient({ redisUrl, log, name: 'rollpool-places' });
  const asker = randomUUID();
  const waiting: Waiter[] = [];
  const held = new HeldPlaces({ redis, keys, pace, log });
  let closed: Promise<void> | null = null;
  let asking: Promise<void> | null = null;
  let giveUp = (): void => {};
  // What is asked for next: it holds a place in Redis at most until somebody here has it.
  let token = randomUUID();
  let news = 0;
  let endSleep = (): void => {};
  const wake = (): void => {
    news += 1;
    endSleep();
  };
  const subscriber = await listen(wake).catch(async (fault: unknown) => {
    held[Symbol.dispose]();
    await disconnect(redis);
    throw fault;
  });

  /** Hears when a place is free and it is the turn of this process. */
  async function listen(onTurn: () => void): Promise<Redis> {
    const connection = await connectPatient({ redisUrl, log, name: 'rollpool-places-free' });
    connection.on('message', (_channel: string, next: string) => {
      if (next === asker) onTurn();
    });
    // What was said while it was away is not said again.
    connection.on('ready', onTurn);
    await connection.subscribe(keys.channel);
    return connection;
  }

  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      endSleep = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const free = async (given: { tokens: readonly string[]; asker?: string }): Promise<void> => {
    const told = freePlaces(redis, keys, given).catch(() => undefined);
    await within(told, pace.tellMs);
  };

  /** undefined: closed meanwhile. A command that waits for Redis is not answered when its connection is given up. */
  const asked = (): Promise<number | null | undefined> => {
    const [oldest, next] = waiting.map(({ since }) => performance.now() - since);
    return new Promise((resolve, reject) => {
      giveUp = () => resolve(undefined);
      takePlace(redis, keys, {
        token,
        asker,
        waitedMs: oldest ?? 0,
        nextWaitedMs: next ?? null,
        leaseMs: pace.leaseMs,
        places,
        spacingMs: createsPerSecond === null ? 0 : 1_000 / createsPerSecond,
        believedMs: pace.believedMs,
        graceMs: pace.graceMs,
        longestWaitMs: pace.longestWaitMs,
      }).then(resolve, reject);
    });
  };

  // One asks for all that wait in this process, however many they are.
  const askOn = async (): Promise<void> => {
    while (waiting.length > 0 && closed === null) {
      const heard = news;
      let ms: number | null = pace.longestWaitMs;
      try {
        const answer = await asked();
        if (answer === undefined) return;
        ms = answer;
      } catch (fault) {
        if (closed !== null) return;
        // Whether the place was given is not known: the same token is asked for again.
        log.warn({ err: String(fault), provider }, 'place limit');
      }
      if (ms === null) {
        const first = waiting.shift();
        if (first === undefined) await free({ tokens: [token] });
        else first.admit(held.place(token));
        token = randomUUID();
      } else if (waiting.length > 0 && news === heard) {
        // Spread, so that the workers of a pool do not ask all at once.
        await sleep(ms + Math.random() * Math.min(ms / 10, 100));
      }
    }
    // It may stand in the line for one that gave up, and before others.
    if (closed === null) await free({ tokens: [token], asker });
  };

  const ask = (): void => {
    asking ??= askOn().finally(() => {
      asking = null;
      // One may have come between the last look and now.
      if (waiting.length > 0 && closed === null) ask();
    });
  };

  const take = (signal: AbortSignal): Promise<Place> => {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (closed !== null) return Promise.reject(closing());
    return new Promise((resolve, reject) => {
      const quit = (): void => {
        waiting.splice(waiting.indexOf(waiter), 1);
        reject(signal.reason as Error);
        if (waiting.length === 0) wake();
      };
      const waiter: Waiter = {
        since: performance.now(),
        admit: (place) => {
          signal.removeEventListener('abort', quit);
          resolve(place);
        },
        refuse: (reason) => {
          signal.removeEventListener('abort', quit);
          reject(reason);
        },
      };
      waiting.push(waiter);
      signal.addEventListener('abort', quit, { once: true });
      ask();
    });
  };

  const close = (): Promise<void> =>
    (closed ??= (async () => {
      for (const waiter of waiting.splice(0)) waiter.refuse(closing());
      wake();
      giveUp();
      await asking;
      held[Symbol.dispose]();
      // Neither a turn nor what was asked for last is to be kept for whoever has closed.
      if (redis.status === 'ready') await free({ tokens: [token], asker });
      await Promise.all([disconnect(subscriber), disconnect(redis)]);
    })());
  return { take, close, [Symbol.asyncDispose]: close };
}
