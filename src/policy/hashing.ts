/** A 32-bit avalanche (the finaliser of MurmurHash3). */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function hashText(text: string, seed = 0): number {
  let hash = mix(seed ^ 0x9e3779b9);
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return mix(hash ^ text.length);
}

/** A number in [0, 1) that only depends on its arguments. */
export function hashUnit(first: number, second: number): number {
  return mix(mix(first) ^ Math.imul(second + 1, 0x9e3779b1)) / 2 ** 32;
}

/** A running 64-bit hash of token ids: names a prompt's prefix without keeping it. */
export class PrefixHash {
  #low = 0x811c9dc5;
  #high = 0x1b873593;

  add(id: number): void {
    this.#low = Math.imul(this.#low ^ id, 0x01000193);
    this.#high = mix(this.#high + Math.imul(id + 1, 0xcc9e2d51));
  }

  toString(): string {
    return `${(this.#low >>> 0).toString(36)}.${this.#high.toString(36)}`;
  }
}

/** A small counter-based generator: the same key gives the same numbers, keys near each other do not correlate. */
export class Random {
  readonly #key: number;
  readonly #key2: number;
  #count = 0;

  constructor(key: string) {
    this.#key = hashText(key, 1);
    this.#key2 = hashText(key, 2);
  }

  /** Uniform in [0, 1), 53 bits. */
  next(): number {
    this.#count += 1;
    const high = mix(this.#key ^ mix(this.#count ^ this.#key2)) >>> 5;
    const low = mix(this.#key2 ^ mix(this.#count + this.#key + 0x632be59b)) >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }
}
