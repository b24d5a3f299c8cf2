import { availableParallelism } from 'node:os';
import PQueue from 'p-queue';

/**
 * Bounds how many agent CLIs may be starting at once, apart from how many run: a start burns about one CPU second, a
 * running agent mostly waits for its policy. More starts than cores make every one of them slower.
 */
export interface StartGate {
  /**
   * Waits for a place; rejects with the signal's reason when it aborts first. The function it gives frees the place
   * and may be called any number of times. `ahead`: a start that no episode waits for lets all others go first.
   */
  enter(signal: AbortSignal, ahead?: 'ahead'): Promise<() => void>;
}

/** One gate a process. `limit` defaults to the number of cores this process may use. */
export function createStartGate(limit: number = availableParallelism()): StartGate {
  const places = new PQueue({ concurrency: limit });
  return {
    async enter(signal, ahead) {
      signal.throwIfAborted();
      return new Promise<() => void>((resolve, reject) => {
        places
          .add(() => new Promise<void>((leave) => resolve(leave)), {
            signal,
            priority: ahead === undefined ? 1 : 0,
          })
          // An abort later on frees the place as well; this promise is settled by then.
          .catch(() => reject(signal.reason as Error));
      });
    },
  };
}
