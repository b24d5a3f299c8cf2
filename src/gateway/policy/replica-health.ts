import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs } from './backoff.ts';
import type { Replica } from './replica.ts';

/**
 * `up`: takes calls. `failing`: answers, but with errors: not taken while another one is up. `dead`: does not answer: no
 * call goes there.
 */
export type ReplicaCondition = 'up' | 'failing' | 'dead';

/** How long a replica that answers with errors is left alone the first time; twice as long each further time. */
const leaveAloneMs = 5_000;
const longestMs = 60_000;

/** Whether the server says within `ms` that it can work: by any answer but a 5xx, as not every server has the route. */
export async function isHealthy(
  replica: Pick<Replica, 'request'>,
  ms: number,
  closing: AbortSignal,
): Promise<boolean> {
  try {
    const limited = AbortSignal.any([closing, AbortSignal.timeout(ms)]);
    return (await replica.request('GET', '/health', null, limited)).status < 500;
  } catch {
    return false;
  }
}

/**
 * What is known of one replica's health. One that is not up is looked at again and again, ever more rarely, by one question
 * at a time however many calls wait for it, until it says that it can work.
 */
export class ReplicaHealth {
  readonly #ask: (signal: AbortSignal) => Promise<boolean>;
  readonly #closing: AbortSignal;
  readonly #changed: (condition: ReplicaCondition) => void;
  #condition: ReplicaCondition = 'up';
  /** Times it was found wanting since a call was answered. */
  #strikes = 0;
  #watching = false;

  /** `ask`: whether the replica can work. `changed` is told of every new condition. */
  constructor(
    ask: (signal: AbortSignal) => Promise<boolean>,
    closing: AbortSignal,
    changed: (condition: ReplicaCondition) => void,
  ) {
    this.#ask = ask;
    this.#closing = closing;
    this.#changed = changed;
  }

  get condition(): ReplicaCondition {
    return this.#condition;
  }

  /** It did not answer before any call was made. Nobody is told: whoever found that has said it. */
  beginsDead(): void {
    this.#condition = 'dead';
    if (!this.#watching) void this.#watch();
  }

  /** A call was answered, were it by a refusal of the request. */
  answered(): void {
    this.#strikes = 0;
    this.#become('up');
  }

  /** Calls failed on it. A dead one stays dead. */
  found(condition: Exclude<ReplicaCondition, 'up'>): void {
    if (this.#condition !== 'dead') this.#become(condition);
    if (!this.#watching) void this.#watch();
  }

  #become(condition: ReplicaCondition): void {
    if (this.#condition === condition) return;
    this.#condition = condition;
    this.#changed(condition);
  }

  async #watch(): Promise<void> {
    this.#watching = true;
    try {
      for (let looks = 0; this.#condition !== 'up'; looks++) {
        const wait =
          this.#condition === 'dead'
            ? backoffMs(looks)
            : Math.min(longestMs, leaveAloneMs * 2 ** this.#strikes++);
        await sleep(wait, undefined, { signal: this.#closing, ref: false });
        if (await this.#ask(this.#closing)) this.#become('up');
      }
    } catch {
      // Closing.
    } finally {
      this.#watching = false;
    }
  }
}
