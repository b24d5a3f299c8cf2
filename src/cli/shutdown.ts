const signals = ['SIGINT', 'SIGTERM'] as const;

/** A signal ended a command before it had anything to hand off. */
export class Interrupted extends Error {
  constructor() {
    super('interrupted');
    this.name = 'Interrupted';
  }
}

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
    if (graceful.signal.aborted) forced.abort(new Interrupted());
    else graceful.abort(new Interrupted());
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

/** Resolves when the signal aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
