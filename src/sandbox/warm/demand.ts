/** What a key was asked for lately: each request counts 1 when it comes, half after `halfLifeMs`, and so on. */
export class Demand {
  readonly #halfLifeMs: number;
  #count = 0;
  #at = 0;

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs;
  }

  add(now: number): void {
    this.#count = this.at(now) + 1;
    this.#at = now;
  }

  at(now: number): number {
    return this.#count * 2 ** (-Math.max(0, now - this.#at) / this.#halfLifeMs);
  }
}

/**
 * How many of `capacity` places each key is to have. Places go one by one to the key whose demand for each place it would
 * then have is greatest, so that shares are in proportion; no key has more places than its demand, rounded up, and none
 * below `least` has any.
 */
export function sharePlaces(
  demands: ReadonlyMap<string, number>,
  capacity: number,
  least: number,
): Map<string, number> {
  const shares = new Map<string, number>();
  for (let place = 0; place < capacity; place++) {
    let best: string | null = null;
    let most = 0;
    for (const [key, demand] of demands) {
      const has = shares.get(key) ?? 0;
      if (demand < least || has >= Math.ceil(demand)) continue;
      if (demand / (has + 1) > most) {
        most = demand / (has + 1);
        best = key;
      }
    }
    if (best === null) break;
    shares.set(best, (shares.get(best) ?? 0) + 1);
  }
  return shares;
}
