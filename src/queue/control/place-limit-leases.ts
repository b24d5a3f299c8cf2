import type { Redis } from 'ioredis';
import type { Place } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { freePlaces } from '../lua/place-free.ts';
import { renewPlaces } from '../lua/place-renew.ts';
import type { PlaceKeys } from '../lua/place-take.ts';
import { within } from '../worker/within.ts';
import type { PlacePace } from './place-limit-pace.ts';

export interface HeldPlacesOptions {
  readonly redis: Redis;
  readonly keys: PlaceKeys;
  readonly pace: PlacePace;
  readonly log: Logger;
}

/** The places that this process holds: renewed while they are held, at once when Redis is back. */
export class HeldPlaces implements Disposable {
  readonly #options: HeldPlacesOptions;
  readonly #tokens = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  readonly #renew = (): void => void this.#renewAll();
  #closed = false;

  constructor(options: HeldPlacesOptions) {
    this.#options = options;
    this.#timer = setInterval(this.#renew, options.pace.leaseMs / 3);
    this.#timer.unref();
    options.redis.on('ready', this.#renew);
  }

  /** A place whose token holds one in Redis. */
  place(token: string): Place {
    this.#tokens.add(token);
    const release = async (): Promise<void> => {
      if (!this.#tokens.delete(token) || this.#closed) return;
      const { redis, keys, pace, log } = this.#options;
      const told = freePlaces(redis, keys, { tokens: [token] }).catch((fault: unknown) => {
        if (!this.#closed) log.warn({ err: String(fault) }, 'a place could not be given back');
      });
      await within(told, pace.tellMs);
    };
    return { release, [Symbol.asyncDispose]: release };
  }

  /** Renews nothing any more: what is held runs out. */
  [Symbol.dispose](): void {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#options.redis.off('ready', this.#renew);
  }

  async #renewAll(): Promise<void> {
    const { redis, keys, pace, log } = this.#options;
    if (this.#tokens.size === 0 || redis.status !== 'ready') return;
    try {
      const back = await renewPlaces(redis, keys, [...this.#tokens], pace.leaseMs);
      if (back > 0) log.warn({ places: back }, 'places had run out while they were held');
    } catch (fault) {
      if (!this.#closed) log.warn({ err: String(fault) }, 'places could not be renewed');
    }
  }
}
