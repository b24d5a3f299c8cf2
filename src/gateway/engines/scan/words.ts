/** ASCII text of at least four characters that is looked for four bytes at a time. */
export class Literal {
  readonly length: number;
  /** Little-endian words, and where in the text each begins: the last ones may overlap. */
  readonly #words: Int32Array;
  readonly #offsets: Int32Array;

  constructor(text: string) {
    const bytes = Buffer.from(text, 'latin1');
    this.length = bytes.length;
    this.#offsets = Int32Array.from({ length: Math.ceil(bytes.length / 4) }, (_item, index) =>
      Math.min(index * 4, bytes.length - 4),
    );
    this.#words = this.#offsets.map((offset) => bytes.readInt32LE(offset));
  }

  /** Whether it stands at `at`. */
  standsAt(view: DataView, at: number): boolean {
    if (at + this.length > view.byteLength) return false;
    for (let index = 0; index < this.#words.length; index++) {
      if (view.getInt32(at + this.#offsets[index]!, true) !== this.#words[index]) return false;
    }
    return true;
  }
}

/** The number that four digits spell, given as a little-endian word; -1 where one of them is no digit. */
export function fourDigits(word: number): number {
  // Digits are 0x30 to 0x39: adding 6 leaves their upper half as it is.
  if ((word & 0xf0f0f0f0) !== 0x30303030 || ((word + 0x06060606) & 0xf0f0f0f0) !== 0x30303030) return -1;
  const digits = word & 0x0f0f0f0f;
  const pairs = (Math.imul(digits, 10) + (digits >>> 8)) & 0x00ff00ff;
  return (Math.imul(pairs, 100) + (pairs >>> 16)) & 0xffff;
}
