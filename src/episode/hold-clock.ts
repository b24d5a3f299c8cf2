/** Reason of a signal aborted by a phase's own deadline. */
export class DeadlineExpired extends Error {
  readonly phase: string;
  constructor(phase: string, seconds: number) {
    super(`${phase} took longer than ${seconds} s`);
    this.name = 'DeadlineExpired';
    this.phase = phase;
  }
}

/**
 * A deadline on wall clock that does not count time held by a paused policy: when it would fire, it asks how long was
 * held and waits on for just that long. Disposing it stops the timer.
 */
export function holdAwareDeadline(
  phase: string,
  seconds: number,
  heldMs: () => number,
): { readonly signal: AbortSignal } & Disposable {
  const controller = new AbortController();
  const startedAt = performance.now();
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const left = seconds * 1000 + heldMs() - (performance.now() - startedAt);
    if (left <= 0) controller.abort(new DeadlineExpired(phase, seconds));
    // setTimeout takes at most 2^31-1 ms; a longer wait is armed in steps.
    else timer = setTimeout(arm, Math.min(left, 2 ** 31 - 1));
  };
  arm();
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}

/** A plain deadline joined with an outer signal. Disposing it stops the timer. */
export function phaseDeadline(
  phase: string,
  seconds: number,
  outer: AbortSignal,
): { readonly signal: AbortSignal } & Disposable {
  const own = holdAwareDeadline(phase, seconds, () => 0);
  return { signal: AbortSignal.any([outer, own.signal]), [Symbol.dispose]: () => own[Symbol.dispose]() };
}
