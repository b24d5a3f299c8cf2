interface Running {
  readonly result: Promise<void>;
  readonly controller: AbortController;
  waiting: number;
}

/** Does one thing once for all who ask for it meanwhile, and gives it up when the last of them has left. */
export class SharedWork {
  readonly #running = new Map<string, Running>();
  /** All that has not come to rest, given up or not. */
  readonly #resting = new Set<Promise<void>>();

  /** Waits for the work named `key`, begun here if it does not run. Rejects with its error, or with the signal's reason. */
  async join(key: string, begin: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const running = this.#running.get(key) ?? this.#begin(key, begin);
    running.waiting += 1;
    let onAbort: (() => void) | undefined;
    const left = new Promise<never>((_resolve, reject) => {
      onAbort = () => reject(signal.reason as Error);
      signal.addEventListener('abort', onAbort, { once: true });
    });
    try {
      await Promise.race([running.result, left]);
    } finally {
      if (onAbort !== undefined) signal.removeEventListener('abort', onAbort);
      running.waiting -= 1;
      if (running.waiting === 0) this.#giveUp(key, running);
    }
  }

  /** Gives everything up, and resolves when nothing runs. */
  async stop(): Promise<void> {
    for (const [key, running] of [...this.#running]) this.#giveUp(key, running);
    await Promise.allSettled(this.#resting);
  }

  #begin(key: string, begin: (signal: AbortSignal) => Promise<void>): Running {
    const controller = new AbortController();
    const result = begin(controller.signal);
    const running = { result, controller, waiting: 0 };
    this.#running.set(key, running);
    this.#resting.add(result);
    const done = (): void => {
      this.#resting.delete(result);
      this.#remove(key, running);
    };
    result.then(done, done);
    return running;
  }

  /** Whoever asks from now on begins anew. */
  #giveUp(key: string, running: Running): void {
    this.#remove(key, running);
    running.controller.abort(new Error('nobody waits for it any more'));
  }

  #remove(key: string, running: Running): void {
    if (this.#running.get(key) === running) this.#running.delete(key);
  }
}
