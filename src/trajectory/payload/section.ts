import { PayloadError } from './payload.ts';

/** Hands out an array section piece by piece; throws when the header asks for more or less than there is. */
export class Section<A extends Int32Array | Float32Array> {
  readonly #what: string;
  readonly #items: A;
  #next = 0;

  constructor(what: string, items: A) {
    this.#what = what;
    this.#items = items;
  }

  take(count: number): A {
    const end = this.#next + count;
    if (!(count >= 0) || end > this.#items.length)
      throw new PayloadError(`${this.#what} do not fit the header`);
    const piece = this.#items.subarray(this.#next, end) as A;
    this.#next = end;
    return piece;
  }

  finish(): void {
    const left = this.#items.length - this.#next;
    if (left > 0) throw new PayloadError(`${left} ${this.#what} are left over`);
  }
}
