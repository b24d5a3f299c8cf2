/**
 * The ids this server sampled for its latest turns, found again by what stood before them and by the message that was
 * delivered: the token-level sibling of a prefix cache. Least recently used turns are forgotten, and a turn another
 * replica sampled was never known: both are tokenised anew from text, as any engine does.
 */
export class TurnMemory {
  readonly #turns = new Map<string, Int32Array>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  remember(prefix: string, message: string, ids: Int32Array): void {
    const key = `${prefix} ${message}`;
    this.#turns.delete(key);
    this.#turns.set(key, ids);
    if (this.#turns.size > this.#capacity) {
      for (const oldest of this.#turns.keys()) {
        this.#turns.delete(oldest);
        break;
      }
    }
  }

  recall(prefix: string, message: string): Int32Array | undefined {
    const key = `${prefix} ${message}`;
    const ids = this.#turns.get(key);
    if (ids !== undefined) {
      this.#turns.delete(key);
      this.#turns.set(key, ids);
    }
    return ids;
  }
}
