/** Lets at most `limit` through at a time, first come first served. */
export class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#free = limit;
  }

  /** Resolves with what frees the place again. Rejects with the signal's reason when aborted while waiting. */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      await new Promise<void>((resolve, reject) => {
        const go = (): void => {
          signal.removeEventListener('abort', quit);
          resolve();
        };
        const quit = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(go), 1);
          reject(signal.reason as Error);
        };
        this.#waiting.push(go);
        signal.addEventListener('abort', quit, { once: true });
      });
    }
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    };
  }
}
