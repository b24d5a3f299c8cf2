/** What a step rejects with that took too long. */
export class TimeLimitError extends Error {
  constructor(ms: number) {
    super(`no answer within ${Math.round(ms / 100) / 10} s`);
    this.name = 'TimeLimitError';
  }
}

/**
 * Runs a step for at most `ms` milliseconds. Its signal aborts when they are over and when `signal` does; then the promise
 * rejects at once (TimeLimitError, or the signal's reason), also when the step goes on regardless.
 */
export async function withTimeLimit<T>(
  step: (signal: AbortSignal) => Promise<T>,
  ms: number,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(new TimeLimitError(ms)), Math.max(0, ms));
  const pass = (): void => control.abort(signal.reason);
  signal.addEventListener('abort', pass);
  const ended = new Promise<never>((_resolve, reject) => {
    control.signal.addEventListener('abort', () => reject(control.signal.reason as Error));
  });
  try {
    return await Promise.race([step(control.signal), ended]);
  } catch (error) {
    // Whatever a step makes of its signal, what aborted it is why it ended.
    if (control.signal.aborted) throw control.signal.reason;
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', pass);
  }
}
