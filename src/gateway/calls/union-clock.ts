/** Wall time during which at least one of several overlapping things went on, in milliseconds. */
export class UnionClock {
  #depth = 0;
  #since = 0;
  #total = 0;

  enter(): void {
    if (this.#depth++ === 0) this.#since = performance.now();
  }

  leave(): void {
    if (--this.#depth === 0) this.#total += performance.now() - this.#since;
  }

  get ms(): number {
    return this.#total + (this.#depth > 0 ? performance.now() - this.#since : 0);
  }
}
