import type { Logger } from '../observe/index.ts';
import type { FleetClient } from './api/index.ts';
import { reasonOf } from './fleet-failure.ts';

export interface LostCreationsOptions {
  readonly client: FleetClient;
  readonly log: Logger;
  /** Milliseconds one sweep may take. */
  readonly sweepMs: number;
  /** Milliseconds after which a run id is swept again. */
  readonly againAfterMs: readonly number[];
}

/**
 * Removes what creations without an answer may have made. The service can finish such a creation after it was swept, so
 * it is swept again later, and a last time when the provider closes.
 */
export class LostCreations implements AsyncDisposable {
  readonly #options: LostCreationsOptions;
  readonly #owed = new Map<string, NodeJS.Timeout | undefined>();
  #closed = false;

  constructor(options: LostCreationsOptions) {
    this.#options = options;
  }

  /** Deletes everything with this run id. Never rejects: false when it could not be done. */
  async sweep(runId: string): Promise<boolean> {
    try {
      await this.#options.client.batchDelete(runId, { timeout_ms: this.#options.sweepMs });
      return true;
    } catch (error) {
      this.#options.log.warn({ fleet_run: runId, why: reasonOf(error) }, 'could not remove a lost creation');
      return false;
    }
  }

  /** Sweeps it again at each of the times; what the last one could not remove stays owed until the provider closes. */
  sweepLater(runId: string): void {
    if (!this.#closed) this.#schedule(runId, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const owed = [...this.#owed];
    this.#owed.clear();
    await Promise.all(
      owed.map(async ([runId, timer]) => {
        clearTimeout(timer);
        await this.sweep(runId);
      }),
    );
  }

  #schedule(runId: string, index: number): void {
    clearTimeout(this.#owed.get(runId));
    const after = this.#options.againAfterMs[index];
    if (after === undefined) {
      // Whoever closes the provider sweeps it once more.
      this.#owed.set(runId, undefined);
      return;
    }
    const timer = setTimeout(() => {
      void this.sweep(runId).then((done) => {
        if (this.#closed) return;
        if (done && index + 1 >= this.#options.againAfterMs.length) this.#owed.delete(runId);
        else this.#schedule(runId, index + 1);
      });
    }, after);
    timer.unref();
    this.#owed.set(runId, timer);
  }
}
