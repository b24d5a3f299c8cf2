import { GrowingList } from './growing-list.ts';

/** Ids of sampled tokens that come piece by piece, from one place for them. */
export class SampledIds {
  readonly #list = new GrowingList<Int32Array>(new Int32Array(0));
  #given = false;
  #sound = true;

  /** null: what came is no list of ids. */
  append(more: Int32Array | null): void {
    if (more === null) this.#sound = false;
    else this.#list.append(more);
    this.#given = true;
  }

  push(id: number): void {
    this.#list.push(id);
    this.#given = true;
  }

  list(): Int32Array | null {
    return this.#given && this.#sound ? this.#list.list() : null;
  }
}
