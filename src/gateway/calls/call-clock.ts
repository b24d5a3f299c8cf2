import { LinkedAbort } from '../linked-abort.ts';
import type { UnionClock } from './union-clock.ts';

/** Why a call is held: it waits for the policy as such, not for this answer. */
export type HoldReason = 'paused' | 'unreachable' | 'queued';

/** The reason with which a call's clock aborts. */
export class DeadlinePassed extends Error {
  readonly deadline: 'turn' | 'hold';

  constructor(deadline: 'turn' | 'hold') {
    super(`${deadline}_seconds passed`);
    this.name = 'DeadlinePassed';
    this.deadline = deadline;
  }
}

/** setTimeout's longest delay. */
const longestTimer = 2 ** 31 - 1;

/**
 * Time of one model call: a turn's time runs while the call is not held, hold time while it is. `signal` aborts with
 * DeadlinePassed when either has been used up, and with whatever else ends the call.
 */
export class CallClock {
  readonly #limits: { readonly turnMs: number; readonly holdMs: number };
  readonly #clocks: { readonly model: UnionClock; readonly hold: UnionClock };
  readonly #holds = new Set<HoldReason>();
  readonly #abort: LinkedAbort;
  #since = performance.now();
  #activeMs = 0;
  #heldMs = 0;
  #running = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    limits: { readonly turnMs: number; readonly holdMs: number },
    clocks: { readonly model: UnionClock; readonly hold: UnionClock },
    ends: readonly AbortSignal[] = [],
  ) {
    this.#abort = new LinkedAbort(ends);
    this.#limits = limits;
    this.#clocks = clocks;
    clocks.model.enter();
    this.#arm();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get held(): boolean {
    return this.#holds.size > 0;
  }

  get activeMs(): number {
    return this.#activeMs + (this.#running && !this.held ? performance.now() - this.#since : 0);
  }

  get heldMs(): number {
    return this.#heldMs + (this.#running && this.held ? performance.now() - this.#since : 0);
  }

  hold(reason: HoldReason): void {
    if (!this.#running || this.#holds.has(reason)) return;
    const wasHeld = this.held;
    if (!wasHeld) this.#settle();
    this.#holds.add(reason);
    if (wasHeld) return;
    this.#clocks.model.leave();
    this.#clocks.hold.enter();
    this.#arm();
  }

  release(reason: HoldReason): void {
    if (!this.#running || !this.#holds.has(reason)) return;
    if (this.#holds.size === 1) this.#settle();
    this.#holds.delete(reason);
    if (this.held) return;
    this.#clocks.hold.leave();
    this.#clocks.model.enter();
    this.#arm();
  }

  stop(): void {
    if (!this.#running) return;
    this.#settle();
    (this.held ? this.#clocks.hold : this.#clocks.model).leave();
    this.#running = false;
    clearTimeout(this.#timer);
    this.#abort[Symbol.dispose]();
  }

  #settle(): void {
    const now = performance.now();
    if (this.held) this.#heldMs += now - this.#since;
    else this.#activeMs += now - this.#since;
    this.#since = now;
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const left = this.held ? this.#limits.holdMs - this.heldMs : this.#limits.turnMs - this.activeMs;
    const deadline = this.held ? 'hold' : 'turn';
    this.#timer = setTimeout(
      () => this.#abort.abort(new DeadlinePassed(deadline)),
      Math.min(longestTimer, Math.max(0, left)),
    );
  }
}
