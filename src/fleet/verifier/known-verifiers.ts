/** A map that forgets what was used longest ago. */
class Recent<T> {
  readonly #values = new Map<string, T>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): T | undefined {
    const value = this.#values.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: string, value: T): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#most) this.#values.delete(this.#values.keys().next().value ?? '');
  }

  delete(key: string): void {
    this.#values.delete(key);
  }
}

/** What this process knows of verifiers: the samples of a group share one, and each then costs a single call. */
export class KnownVerifiers {
  /** Hashes of bundles that the service has. */
  readonly bundles = new Recent<true>(4_096);
  /** Verifier id -> its source. */
  readonly sources = new Recent<string>(256);
}
