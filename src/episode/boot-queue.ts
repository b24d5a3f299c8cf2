import { availableParallelism } from 'node:os';
import PQueue from 'p-queue';

/** Bounds how many sandboxes boot at once in this process, apart from how many run. */
export class BootQueue {
  readonly #places: PQueue;

  /** `limit` defaults to 2 x cores. */
  constructor(limit: number = 2 * availableParallelism()) {
    this.#places = new PQueue({ concurrency: limit });
  }

  /**
   * Boots when there is a place. An abort ends the wait at once; one that comes later is the boot's own to heed, and is
   * waited for: what it made until then has to be gone when this settles.
   */
  run<T>(boot: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const quit = (): void => reject(signal.reason as Error);
      if (signal.aborted) {
        quit();
        return;
      }
      signal.addEventListener('abort', quit, { once: true });
      void this.#places.add(async () => {
        signal.removeEventListener('abort', quit);
        if (signal.aborted) return;
        await boot().then(resolve, reject);
      });
    });
  }
}
