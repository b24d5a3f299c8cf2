import type { CreationGate, PlaceLimit } from '../../contracts/index.ts';

const nothing = async (): Promise<void> => {};
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/** A gate of this process alone: who has no pool to share one with. After a refusal nobody here asks for a while. */
export function localGate(): CreationGate {
  let pause = firstPauseMs;
  let until = 0;
  return {
    enter: async (signal) => {
      signal.throwIfAborted();
      for (let left = until - Date.now(); left > 0; left = until - Date.now()) {
        await new Promise<void>((resolve, reject) => {
          const done = (): void => {
            clearTimeout(timer);
            signal.removeEventListener('abort', done);
            if (signal.aborted) reject(signal.reason as Error);
            else resolve();
          };
          const timer = setTimeout(done, left);
          signal.addEventListener('abort', done, { once: true });
        });
      }
      return {
        passed: async () => {
          pause = firstPauseMs;
        },
        refused: async (retry_after_ms) => {
          until = Math.max(until, Date.now() + (retry_after_ms ?? pause));
          pause = Math.min(pause * 2, longestPauseMs);
        },
        left: nothing,
      };
    },
  };
}

/** There is always a place. */
export const freePlaces: PlaceLimit = {
  take: async (signal) => {
    signal.throwIfAborted();
    return { release: nothing, [Symbol.asyncDispose]: nothing };
  },
};
