import { noPolicyRecord, type PolicyRecord } from './policy-record.ts';

/**
 * What this process last heard of the policy. It has the shape of the gateway's PolicyState, which queue may not
 * import. While Redis is away it keeps saying what it heard last.
 */
export class PolicyView {
  #record: PolicyRecord = noPolicyRecord;
  readonly #waiting = new Set<() => void>();

  get source(): 'pushed' | 'none' {
    return this.#record.version === null && Object.keys(this.#record.replicas).length === 0
      ? 'none'
      : 'pushed';
  }

  get record(): PolicyRecord {
    return this.#record;
  }

  version(replica: string): number | null {
    return this.#record.replicas[replica] ?? this.#record.version;
  }

  paused(): boolean {
    return this.#record.paused;
  }

  unpausedChanges(replica?: string): number {
    const own = replica === undefined ? undefined : this.#record.unpaused_by_replica[replica];
    return this.#record.unpaused_changes + (own ?? 0);
  }

  cuts(): number {
    return this.#record.cuts;
  }

  /** Resolves when the policy is not paused; rejects with the signal's reason. */
  resumed(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (!this.#record.paused) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const settle = (then: () => void) => (): void => {
        this.#waiting.delete(go);
        signal.removeEventListener('abort', stop);
        then();
      };
      const go = settle(resolve);
      const stop = settle(() => reject(signal.reason as Error));
      this.#waiting.add(go);
      signal.addEventListener('abort', stop);
    });
  }

  /** Takes in what Redis says. */
  update(record: PolicyRecord): void {
    this.#record = record;
    if (!record.paused) for (const go of [...this.#waiting]) go();
  }
}
