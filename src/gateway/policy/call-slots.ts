/** A call's place on a replica. Disposing it lets the next one in. */
export interface CallSlot extends Disposable {
  /** Told why when the call is to leave the replica before it is answered. Set by who has the slot. */
  onCut: ((reason: Error) => void) | null;
}

interface Waiter {
  /** null: not here, choose again. */
  readonly go: (slot: CallSlot | null) => void;
}

/** A slot while it is taken. */
class Taken implements CallSlot {
  readonly since = performance.now();
  readonly #left: (slot: Taken) => void;
  onCut: CallSlot['onCut'] = null;
  wasCut = false;

  constructor(left: (slot: Taken) => void) {
    this.#left = left;
  }

  cut(reason: Error): void {
    this.wasCut = true;
    this.onCut?.(reason);
  }

  [Symbol.dispose](): void {
    this.#left(this);
  }
}

/**
 * The calls that one replica has at once. Those above the limit wait: in order of arrival within an episode, and episode
 * by episode in turn, so that one with many parallel calls does not keep the others out.
 */
export class CallSlots {
  readonly #limit: number;
  readonly #taken = new Set<Taken>();
  readonly #waiting = new Map<object, Waiter[]>();
  #heardAt = 0;

  /** `limit`: calls at once; Infinity for no limit. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Calls that are here or wait to be. */
  get load(): number {
    return this.#taken.size + this.waiting;
  }

  get taken(): number {
    return this.#taken.size;
  }

  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Milliseconds since a call of those here began or one ended, whichever is later; 0 when there is none. */
  silentMs(now = performance.now()): number {
    const oldest = this.#taken.values().next().value;
    return oldest === undefined ? 0 : now - Math.max(oldest.since, this.#heardAt);
  }

  /** A slot, if one is free and nobody waits for it. */
  tryEnter(): CallSlot | null {
    return this.#taken.size < this.#limit && this.#waiting.size === 0 ? this.#take() : null;
  }

  /** Waits for a slot; null when the waiting ones were turned away. Rejects with the signal's reason. */
  enter(owner: object, signal: AbortSignal): Promise<CallSlot | null> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const waiter: Waiter = {
        go: (slot) => {
          signal.removeEventListener('abort', leave);
          resolve(slot);
        },
      };
      const leave = (): void => {
        const queue = this.#waiting.get(owner)?.filter((each) => each !== waiter) ?? [];
        if (queue.length > 0) this.#waiting.set(owner, queue);
        else this.#waiting.delete(owner);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', leave, { once: true });
      const queue = this.#waiting.get(owner);
      if (queue === undefined) this.#waiting.set(owner, [waiter]);
      else queue.push(waiter);
      this.#letIn();
    });
  }

  /** Sends all who wait away, to choose again. */
  turnAway(): void {
    const away = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const { go } of away) go(null);
  }

  /** Ends the calls that are here. */
  cut(reason: Error): void {
    for (const slot of this.#taken) slot.cut(reason);
  }

  #take(): CallSlot {
    const slot = new Taken(this.#leave);
    this.#taken.add(slot);
    return slot;
  }

  readonly #leave = (slot: Taken): void => {
    if (!this.#taken.delete(slot)) return;
    if (!slot.wasCut) this.#heardAt = performance.now();
    this.#letIn();
  };

  #letIn(): void {
    while (this.#taken.size < this.#limit) {
      const first = this.#waiting.entries().next();
      if (first.done === true) return;
      const [owner, queue] = first.value;
      // Its next call waits behind everybody else's.
      this.#waiting.delete(owner);
      const waiter = queue.shift();
      if (queue.length > 0) this.#waiting.set(owner, queue);
      waiter?.go(this.#take());
    }
  }
}
