import { LinkedAbort } from '../linked-abort.ts';
import type { CallClock } from './call-clock.ts';

/** A part of a call took longer than it may. */
export class PartTooSlow extends Error {}

/**
 * Aborts with PartTooSlow when a part of a call took `limitMs`, and with the call. Time in which the call is held does not count: a
 * paused policy answers nobody.
 */
export class ActiveLimit implements Disposable {
  readonly #clock: CallClock;
  readonly #until: number;
  readonly #abort: LinkedAbort;
  #timer: NodeJS.Timeout;

  constructor(clock: CallClock, limitMs: number, signal: AbortSignal) {
    this.#clock = clock;
    this.#until = clock.activeMs + limitMs;
    this.#abort = new LinkedAbort([signal]);
    this.#timer = this.#wait();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #wait(): NodeJS.Timeout {
    return setTimeout(
      () => {
        if (this.#clock.activeMs >= this.#until) this.#abort.abort(new PartTooSlow());
        else this.#timer = this.#wait();
      },
      Math.max(50, this.#until - this.#clock.activeMs),
    );
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#abort[Symbol.dispose]();
  }
}
