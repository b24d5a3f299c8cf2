const signals = ['SIGINT', 'SIGTERM'] as const;

export interface Shutdown extends Disposable {
  /** Aborts at the first signal: time to hand off. */
  readonly graceful: AbortSignal;
  /** Aborts at the second signal: end at once. */
  readonly forced: AbortSignal;
  /** As if a signal had come. */
  request(): void;
}

/**
 * First signal graceful, second one at once. A user who presses Ctrl-C twice wants the prompt back, and a supervisor that
 * signals twice is about to kill. SIGHUP is left alone: a worker started from a shell goes on when the shell ends under nohup.
 */
export function listenForShutdown(): Shutdown {
  const graceful = new AbortController();
  const forced = new AbortController();
  const onSignal = (): void => {
    if (graceful.signal.aborted) forced.abort(new Error('second signal'));
    else graceful.abort(new Error('signal'));
  };
  for (const signal of signals) process.on(signal, onSignal);
  return {
    graceful: graceful.signal,
    forced: forced.signal,
    request: onSignal,
    [Symbol.dispose]: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
