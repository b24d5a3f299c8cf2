import type { Logger } from '../observe/index.ts';
import { FleetApiError, type FleetClient } from './api/index.ts';
import { reasonOf } from './fleet-failure.ts';

export interface HeartbeatOptions {
  readonly client: FleetClient;
  readonly id: string;
  readonly region: string | null;
  readonly everyMs: number;
  readonly log: Logger;
  /** Asked when a beat was answered with 404: whether the instance itself is not there any more. */
  readonly isGone: () => Promise<boolean>;
}

/** Tells the service that somebody uses the instance, until it is stopped. A beat that fails is said once. */
export class Heartbeat implements Disposable {
  readonly #options: HeartbeatOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #stop = new AbortController();
  #beating = false;
  #said = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#beat(), options.everyMs);
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }

  async #beat(): Promise<void> {
    const { client, id, region, everyMs, isGone } = this.#options;
    if (this.#beating || this.#stop.signal.aborted) return;
    this.#beating = true;
    try {
      const answer = await client.heartbeat(id, region, { timeout_ms: everyMs, signal: this.#stop.signal });
      if (!answer.success) this.#say('the service did not take it');
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      // A 404 may also say that this service knows no heartbeats, or come from a proxy.
      const gone = error instanceof FleetApiError && error.kind === 'not_found' && (await isGone());
      if (gone) clearInterval(this.#timer);
      else this.#say(reasonOf(error));
    } finally {
      this.#beating = false;
    }
  }

  #say(why: string): void {
    if (this.#said) return;
    this.#said = true;
    this.#options.log.warn({ instance: this.#options.id, why }, 'a heartbeat failed');
  }
}
