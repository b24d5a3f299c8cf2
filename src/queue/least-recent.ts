/** A map that keeps the `limit` entries used last. */
export class LeastRecent<Value> {
  readonly #limit: number;
  readonly #entries = new Map<string, Value>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: string, make: () => Value): Value {
    const value = this.#entries.get(key) ?? make();
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size > this.#limit) {
      for (const oldest of this.#entries.keys()) {
        this.#entries.delete(oldest);
        break;
      }
    }
    return value;
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }
}
