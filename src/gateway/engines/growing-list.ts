type List = Int32Array | Float32Array;

/** Numbers that come piece by piece, kept in a typed array from the first on. */
export class GrowingList<T extends List> {
  #list: T;
  #length = 0;

  constructor(empty: T) {
    this.#list = empty;
  }

  append(more: T): void {
    const length = this.#length + more.length;
    if (length > this.#list.length) this.#grow(length);
    this.#list.set(more, this.#length);
    this.#length = length;
  }

  push(one: number): void {
    if (this.#length === this.#list.length) this.#grow(this.#length + 1);
    this.#list[this.#length++] = one;
  }

  #grow(length: number): void {
    const grown = new (this.#list.constructor as new (length: number) => T)(
      Math.max(256, 2 * this.#list.length, length),
    );
    grown.set(this.#list.subarray(0, this.#length));
    this.#list = grown;
  }

  /** A copy of just the numbers. */
  list(): T {
    return this.#list.slice(0, this.#length) as T;
  }
}
