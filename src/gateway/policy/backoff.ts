import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds before try number `attempt` (from 0): 0.25 s doubling to 5 s, jittered down by up to half. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  return Math.min(5_000, 250 * 2 ** attempt) * (0.5 + random() / 2);
}

/** setTimeout's longest delay: a longer one, as a policy may ask for, would be none at all. */
const longestTimer = 2 ** 31 - 1;

/** Waits; rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(ms, longestTimer), undefined, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
