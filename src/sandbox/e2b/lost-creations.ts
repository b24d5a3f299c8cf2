import type { Logger } from '../../observe/index.ts';
import { reasonOf } from '../sandbox-failure.ts';
import type { E2bConnection } from './connection.ts';
import { listSandboxes } from './list-sandboxes.ts';
import { removeSandbox } from './remove-sandbox.ts';

/** The label that tells one creation from another of the same attempt. */
export const creationLabel = 'io.rollpool.creation';

const removeMs = 20_000;
const againAfterMs = [5_000, 30_000, 120_000];

/**
 * Kills what creations without an answer may have made. The service can finish one after it was looked for, so it is
 * looked for again later, and a last time when the provider closes.
 */
export class LostCreations implements AsyncDisposable {
  readonly #connection: E2bConnection;
  readonly #log: Logger;
  readonly #owed = new Map<string, NodeJS.Timeout | undefined>();
  readonly #sweeps = new Set<Promise<void>>();
  #closed = false;

  constructor(connection: E2bConnection, log: Logger) {
    this.#connection = connection;
    this.#log = log;
  }

  /** Kills what has this creation's label, now and again later. Never rejects. */
  async sweep(creation: string): Promise<void> {
    await this.#look(creation);
    if (!this.#closed) this.#schedule(creation, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const owed = [...this.#owed];
    this.#owed.clear();
    for (const [, timer] of owed) clearTimeout(timer);
    await Promise.all([...this.#sweeps, ...owed.map(async ([creation]) => this.#look(creation))]);
  }

  async #look(creation: string): Promise<void> {
    try {
      for (const { sandboxId } of await listSandboxes(this.#connection, { [creationLabel]: creation })) {
        await removeSandbox(this.#connection, sandboxId, removeMs);
        this.#log.info({ sandbox: sandboxId }, 'removed a sandbox whose creation was never answered');
      }
    } catch (error) {
      this.#log.warn(
        { creation, why: reasonOf(error) },
        'could not look for a lost creation: left to the reaper',
      );
    }
  }

  #schedule(creation: string, index: number): void {
    const after = againAfterMs[index];
    if (after === undefined) {
      this.#owed.delete(creation);
      return;
    }
    const timer = setTimeout(() => {
      const sweep = this.#look(creation).finally(() => this.#sweeps.delete(sweep));
      this.#sweeps.add(sweep);
      this.#schedule(creation, index + 1);
    }, after);
    timer.unref();
    this.#owed.set(creation, timer);
  }
}
