/** A signal that fires when the caller's does or when the time is up, whichever is first. Disposing it frees both. */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** The time was up before the caller's signal fired. */
  readonly expired: boolean;
}

/** setTimeout's longest delay: a longer one would be none at all. */
const longestTimer = 2 ** 31 - 1;

/**
 * `AbortSignal.timeout` keeps its timer until it fires, and a process makes many thousands of these for calls that take
 * milliseconds.
 */
export function deadlineAfter(ms: number, signal?: AbortSignal): Deadline {
  const controller = new AbortController();
  let expired = false;
  const timer = setTimeout(
    () => {
      expired = true;
      controller.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError'));
    },
    Math.min(Math.max(0, ms), longestTimer),
  );
  const follow = (): void => {
    clearTimeout(timer);
    controller.abort(signal?.reason);
  };
  if (signal?.aborted === true) follow();
  else signal?.addEventListener('abort', follow, { once: true });
  return {
    signal: controller.signal,
    get expired() {
      return expired;
    },
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', follow);
    },
  };
}

/** A signal that fires `ms` after the caller's did, so that what is on its way may still arrive. */
export function graceAfter(ms: number, signal: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const start = (): void => {
    timer = setTimeout(() => controller.abort(signal.reason), ms);
  };
  if (signal.aborted) start();
  else signal.addEventListener('abort', start, { once: true });
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', start);
    },
  };
}
