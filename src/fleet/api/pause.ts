import { setTimeout as sleep } from 'node:timers/promises';

/** setTimeout's longest delay. */
const longestTimer = 2 ** 31 - 1;

/** Waits; rejects with the signal's reason. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(Math.max(0, ms), longestTimer), undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}
