import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** The reason an operation's signal is aborted with when its time is up. */
export class OutOfTime extends Error {
  readonly ms: number;

  constructor(ms: number) {
    super(`no answer within ${ms} ms`);
    this.name = 'OutOfTime';
    this.ms = ms;
  }
}

/**
 * Runs an operation that ends after `ms` at the latest, or with the signal: it then rejects at once, with OutOfTime or the
 * signal's reason, whatever the operation does with its own signal.
 */
export async function capped<T>(
  ms: number,
  signal: AbortSignal,
  operation: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  // The SDK adds a listener for each request of the operation and leaves them there.
  setMaxListeners(1_000, controller.signal);
  // A long-lived signal is left without listeners: an operation has a signal of its own.
  const abort = (): void => controller.abort(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const timer = setTimeout(() => controller.abort(new OutOfTime(ms)), Math.max(0, Math.min(ms, 2 ** 31 - 1)));
  try {
    return await new Promise<T>((resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason as Error), {
        once: true,
      });
      operation(controller.signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
}

/** Waits, and rejects with the signal's reason when that comes first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
