import type { CallClock } from '../calls/call-clock.ts';
import type { PolicyState } from '../policy-state.ts';

/** How often a pause of the policy is looked for while calls are on their way. */
const everyMs = 100;

/** Holds the clocks of calls in flight while the policy is paused: a frozen engine answers nobody. */
export class PauseWatch implements Disposable {
  readonly #state: PolicyState;
  readonly #clocks = new Set<CallClock>();
  #timer: NodeJS.Timeout | undefined;

  constructor(state: PolicyState) {
    this.#state = state;
  }

  add(clock: CallClock): void {
    this.#clocks.add(clock);
    this.#apply(clock);
    this.#timer ??= setInterval(() => this.#clocks.forEach((each) => this.#apply(each)), everyMs).unref();
  }

  remove(clock: CallClock): void {
    this.#clocks.delete(clock);
    if (this.#clocks.size === 0) this[Symbol.dispose]();
  }

  #apply(clock: CallClock): void {
    if (this.#state.paused()) clock.hold('paused');
    else clock.release('paused');
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
