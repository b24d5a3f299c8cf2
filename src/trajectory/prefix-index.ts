import { continueHash, emptyHash, holdsAt } from './token-compare.ts';

/** A recorded prompt + completion that later prompts may extend. The two parts are never copied together. */
export interface Recorded<T> {
  readonly value: T;
  readonly prompt: Int32Array;
  readonly completion: Int32Array;
  /** Tokens of prompt and completion. */
  readonly length: number;
  readonly hash: number;
}

/**
 * Finds the longest recorded prompt + completion that is an exact prefix of a prompt. The usual call extends the
 * longest record of all: one memcmp. Otherwise one hash pass over the prompt names the candidates, so that many
 * chains do not cost calls x chains x tokens.
 */
export class PrefixIndex<T> {
  readonly #byLength = new Map<number, Recorded<T>[]>();
  /** Distinct lengths, ascending. */
  readonly #lengths: number[] = [];

  /** `parent` is what `longest` gave for this prompt: its hash is continued instead of computed anew. */
  add(value: T, prompt: Int32Array, completion: Int32Array, parent: Recorded<T> | undefined): void {
    const promptHash =
      parent === undefined
        ? continueHash(emptyHash, prompt)
        : continueHash(parent.hash, prompt, parent.length);
    const length = prompt.length + completion.length;
    const record = { value, prompt, completion, length, hash: continueHash(promptHash, completion) };
    const same = this.#byLength.get(length);
    if (same !== undefined) {
      same.push(record);
      return;
    }
    this.#byLength.set(length, [record]);
    this.#lengths.splice(this.#countUpTo(length), 0, length);
  }

  /** Equally long ones hold the same tokens; the latest of them wins. */
  longest(prompt: Int32Array): Recorded<T> | undefined {
    const count = this.#countUpTo(prompt.length);
    if (count === 0) return undefined;
    const first = this.#match(prompt, this.#lengths[count - 1]!);
    if (first !== undefined || count === 1) return first;

    const candidates: number[] = [];
    let hash = emptyHash;
    let at = 0;
    for (let index = 0; index < count - 1; index += 1) {
      const length = this.#lengths[index]!;
      hash = continueHash(hash, prompt, at, length);
      at = length;
      if (this.#byLength.get(length)!.some((record) => record.hash === hash)) candidates.push(length);
    }
    for (const length of candidates.reverse()) {
      const found = this.#match(prompt, length);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #match(prompt: Int32Array, length: number): Recorded<T> | undefined {
    return this.#byLength
      .get(length)
      ?.findLast(
        (record) =>
          holdsAt(prompt, 0, record.prompt) && holdsAt(prompt, record.prompt.length, record.completion),
      );
  }

  /** How many of the lengths are at most `length`. */
  #countUpTo(length: number): number {
    let low = 0;
    let high = this.#lengths.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#lengths[middle]! <= length) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
