import { silentLogger, type Logger } from '../../observe/index.ts';
import { Demand, sharePlaces } from './demand.ts';

/** Something that waits to be given out once. Disposing it removes it. */
export interface ShelfItem extends AsyncDisposable {
  /** Whether it may still be given out. Never rejects. */
  check(): Promise<boolean>;
  /** Milliseconds it may wait before it is removed unused. */
  readonly keep_ms: number;
}

/** Makes an item, ahead of demand. */
export type MakeItem<T extends ShelfItem> = (signal: AbortSignal) => Promise<T>;

export interface WarmShelfOptions {
  /** Items at once over all keys: waiting, being made, being checked, being removed. */
  readonly capacity: number;
  /** Items made at once. Default: 2. */
  readonly fillsAtOnce?: number;
  /** Requests after which a key is one that will be asked for again. Default: 2. */
  readonly fillAfter?: number;
  /** Time after which a request counts half. Default: 120,000 ms. */
  readonly halfLifeMs?: number;
  /** Time after which a key whose item could not be made is tried again; doubled at each failure, up to tenfold. Default: 30,000 ms. */
  readonly pauseMs?: number;
  /** Time an item has its place even when another key wants it more. Default: 30,000 ms. */
  readonly settleMs?: number;
  /** Between looks at what waits. Default: 5,000 ms. */
  readonly turnMs?: number;
  /** Milliseconds that only grow. Default: the process's clock. */
  readonly clock?: () => number;
  readonly log?: Logger;
}

/** Below this demand a key is forgotten: a single request, some seven minutes ago. */
const leastDemand = 0.1;
/** An item is looked at again after this time. */
const checkEveryMs = 15_000;

interface Entry<T> {
  readonly item: T;
  readonly madeAt: number;
  checkedAt: number;
}

interface Key<T extends ShelfItem> {
  readonly demand: Demand;
  asked: number;
  make: MakeItem<T>;
  readonly waiting: Entry<T>[];
  filling: number;
  failures: number;
  notBefore: number;
}

/**
 * Keeps items ready for keys that were asked for lately, one shelf a process. What it makes it makes ahead of demand and
 * after everything somebody waits for; it holds no more than its capacity, and gives no item out twice.
 */
export class WarmShelf<T extends ShelfItem> implements AsyncDisposable {
  readonly #capacity: number;
  readonly #options: Required<Omit<WarmShelfOptions, 'capacity' | 'log'>>;
  readonly #log: Logger;
  readonly #keys = new Map<string, Key<T>>();
  readonly #stop = new AbortController();
  readonly #working = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  /** Creations somebody waits for. */
  #busy = 0;
  #fills = 0;
  /** Items that are neither waiting nor gone. */
  #inHand = 0;

  constructor(options: WarmShelfOptions) {
    this.#capacity = options.capacity;
    this.#options = {
      fillsAtOnce: options.fillsAtOnce ?? 2,
      fillAfter: options.fillAfter ?? 2,
      halfLifeMs: options.halfLifeMs ?? 120_000,
      pauseMs: options.pauseMs ?? 30_000,
      settleMs: options.settleMs ?? 30_000,
      turnMs: options.turnMs ?? 5_000,
      clock: options.clock ?? (() => performance.now()),
    };
    this.#log = options.log ?? silentLogger;
  }

  /** Items that exist or are being made, at most the capacity. */
  get size(): number {
    let waiting = 0;
    for (const key of this.#keys.values()) waiting += key.waiting.length;
    return waiting + this.#fills + this.#inHand;
  }

  /** Items of a key that wait. */
  waiting(name: string): number {
    return this.#keys.get(name)?.waiting.length ?? 0;
  }

  /** Gives an item of a key that was found well, the oldest first, or null. One that was not is removed. */
  async take(name: string): Promise<T | null> {
    for (;;) {
      const entry = this.#keys.get(name)?.waiting.shift();
      if (entry === undefined) return null;
      this.#inHand++;
      const well = await entry.item.check();
      this.#inHand--;
      if (well && !this.#stop.signal.aborted) {
        this.turn();
        return entry.item;
      }
      this.#remove(entry, 'it was not well');
    }
  }

  /** Notes that a key was asked for, and how one of it is made. */
  asked(name: string, make: MakeItem<T>): void {
    if (this.#stop.signal.aborted) return;
    let key = this.#keys.get(name);
    if (key === undefined) {
      const demand = new Demand(this.#options.halfLifeMs);
      key = { demand, asked: 0, make, waiting: [], filling: 0, failures: 0, notBefore: -Infinity };
      this.#keys.set(name, key);
    }
    key.make = make;
    key.asked++;
    key.demand.add(this.#options.clock());
    this.#timer ??= setInterval(() => this.turn(), this.#options.turnMs).unref();
    this.turn();
  }

  /** As long as it is not disposed, somebody waits for a creation, and nothing new is made ahead. */
  busy(): Disposable {
    let ended = false;
    this.#busy++;
    return {
      [Symbol.dispose]: () => {
        if (ended) return;
        ended = true;
        this.#busy--;
        this.turn();
      },
    };
  }

  /** Makes nothing more, gives nothing out and removes what waits. */
  drain(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort(new Error('no sandboxes are made ahead any more'));
    clearInterval(this.#timer);
    for (const key of this.#keys.values()) {
      for (const entry of key.waiting.splice(0)) this.#remove(entry, 'the worker ends');
    }
  }

  /** Looks what is too much and what is missing now. The clock does it every few seconds, and so does every change. */
  turn(): void {
    if (this.#stop.signal.aborted) return;
    const now = this.#options.clock();
    for (const key of this.#keys.values()) this.#retire(key, now);
    const targets = this.#targets(now);
    while (this.#busy === 0 && this.#fills < this.#options.fillsAtOnce) {
      const neediest = this.#neediest(targets, now);
      if (neediest === null) break;
      if (this.size >= this.#capacity) {
        // Its place is taken by a key that is asked for less now; when that one is gone, this looks again.
        if (this.#inHand === 0) this.#makeRoom(targets, now);
        break;
      }
      this.#run(this.#fill(...neediest));
    }
    this.#checkWaiting(now);
    if (this.#keys.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }

  /** Resolves when nothing is being made, checked or removed. */
  async settled(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working);
  }

  /** Drains it and waits until all is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.drain();
    await this.settled();
  }

  #targets(now: number): Map<string, number> {
    const demands = new Map<string, number>();
    for (const [name, key] of this.#keys) {
      const demand = key.demand.at(now);
      if (key.asked >= this.#options.fillAfter) demands.set(name, demand);
      if (demand < leastDemand && key.waiting.length === 0 && key.filling === 0) this.#keys.delete(name);
    }
    return sharePlaces(demands, this.#capacity, leastDemand);
  }

  #retire(key: Key<T>, now: number): void {
    const demand = key.demand.at(now);
    const wanted = demand < leastDemand ? 0 : Math.ceil(demand);
    for (const entry of [...key.waiting]) {
      const waited = now - entry.madeAt;
      const unwanted = key.waiting.length > wanted && waited >= this.#options.settleMs;
      if (waited < entry.item.keep_ms && !unwanted) continue;
      key.waiting.splice(key.waiting.indexOf(entry), 1);
      this.#remove(entry, unwanted ? 'it is asked for less' : 'it has waited too long');
    }
  }

  /** The key with the smallest part of what it is to have. */
  #neediest(targets: ReadonlyMap<string, number>, now: number): [string, Key<T>] | null {
    let best: [string, Key<T>] | null = null;
    let least = 1;
    for (const [name, target] of targets) {
      const key = this.#keys.get(name)!;
      const part = (key.waiting.length + key.filling) / target;
      if (part >= least || now < key.notBefore) continue;
      least = part;
      best = [name, key];
    }
    return best;
  }

  #makeRoom(targets: ReadonlyMap<string, number>, now: number): void {
    for (const [name, key] of this.#keys) {
      const oldest = key.waiting[0];
      if (oldest === undefined || now - oldest.madeAt < this.#options.settleMs) continue;
      if (key.waiting.length + key.filling <= (targets.get(name) ?? 0)) continue;
      key.waiting.shift();
      this.#remove(oldest, 'another kind is asked for more');
      return;
    }
  }

  async #fill(name: string, key: Key<T>): Promise<void> {
    key.filling++;
    this.#fills++;
    try {
      const item = await key.make(this.#stop.signal);
      key.failures = 0;
      const now = this.#options.clock();
      const entry = { item, madeAt: now, checkedAt: now };
      if (this.#stop.signal.aborted) this.#remove(entry, 'the worker ends');
      else key.waiting.push(entry);
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        const pause = this.#options.pauseMs * Math.min(10, 2 ** key.failures);
        key.failures++;
        key.notBefore = this.#options.clock() + pause;
        this.#log.warn(
          { err: error, key: name, pause_ms: pause },
          'no sandbox could be made ahead; episodes make their own',
        );
      }
    } finally {
      key.filling--;
      this.#fills--;
    }
  }

  /** Looks whether what waits is well, so that an episode does not have to find out. */
  #checkWaiting(now: number): void {
    for (const key of this.#keys.values()) {
      for (const entry of key.waiting) {
        if (now - entry.checkedAt < checkEveryMs) continue;
        entry.checkedAt = now;
        this.#run(this.#check(key, entry));
      }
    }
  }

  async #check(key: Key<T>, entry: Entry<T>): Promise<void> {
    if (await entry.item.check()) return;
    const at = key.waiting.indexOf(entry);
    if (at === -1) return;
    key.waiting.splice(at, 1);
    this.#remove(entry, 'it was not well');
  }

  #remove(entry: Entry<T>, why: string): void {
    this.#inHand++;
    this.#log.debug({ why }, 'removes a sandbox made ahead');
    const removal = async (): Promise<void> => {
      try {
        await entry.item[Symbol.asyncDispose]();
      } catch (error) {
        this.#log.warn({ err: error }, 'a sandbox made ahead could not be removed: left to the reaper');
      } finally {
        this.#inHand--;
      }
    };
    this.#run(removal());
  }

  #run(work: Promise<void>): void {
    const settled = work.finally(() => {
      this.#working.delete(settled);
      this.turn();
    });
    this.#working.add(settled);
  }
}
