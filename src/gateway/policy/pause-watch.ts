import type { CallClock } from '../calls/call-clock.ts';
import type { LinkedAbort } from '../linked-abort.ts';
import type { PolicyState } from '../policy-state.ts';

/** How often a pause of the policy is looked for while calls are on their way. */
const everyMs = 100;

/** A pause asked for calls in flight to be ended: the call is sampled anew once the policy goes on. */
export class CutByPause extends Error {
  constructor() {
    super('the policy was paused and its calls in flight ended');
    this.name = 'CutByPause';
  }
}

/**
 * Holds the clocks of calls in flight while the policy is paused, as a frozen engine answers nobody; and ends those calls
 * where the pause asked for that.
 */
export class PauseWatch implements Disposable {
  readonly #state: PolicyState;
  readonly #clocks = new Set<CallClock>();
  /** What ends a call, each with the number of such pauses before it. */
  readonly #cuts = new Map<LinkedAbort, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(state: PolicyState) {
    this.#state = state;
  }

  add(clock: CallClock): void {
    this.#clocks.add(clock);
    this.#apply(clock);
    this.#timer ??= setInterval(() => this.#look(), everyMs).unref();
  }

  remove(clock: CallClock): void {
    this.#clocks.delete(clock);
    if (this.#clocks.size === 0) this[Symbol.dispose]();
  }

  /** Aborts `call` with CutByPause when the policy is paused with abort, until it is spared. Only for calls whose clock was added. */
  cut(call: LinkedAbort): void {
    this.#cuts.set(call, this.#asked);
  }

  spare(call: LinkedAbort): void {
    this.#cuts.delete(call);
  }

  #look(): void {
    this.#clocks.forEach((each) => this.#apply(each));
    const asked = this.#asked;
    // By number and not by the state: a pause may be over before anybody looked.
    for (const [cut, before] of this.#cuts) if (asked > before) cut.abort(new CutByPause());
  }

  get #asked(): number {
    return this.#state.cuts?.() ?? 0;
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
