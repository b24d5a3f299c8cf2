import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds before try number `attempt` (from 0): 0.25 s doubling to 5 s, jittered down by up to half. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  return Math.min(5_000, 250 * 2 ** attempt) * (0.5 + random() / 2);
}

/** Waits; rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
