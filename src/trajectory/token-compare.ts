/** A view of the same memory as bytes, so that tokens are compared by memcmp and not one JS number at a time. */
function bytes(tokens: Int32Array, from: number, to: number): Uint8Array {
  return new Uint8Array(tokens.buffer, tokens.byteOffset + from * 4, (to - from) * 4);
}

/** Whether `tokens` holds `part` at index `at`. */
export function holdsAt(tokens: Int32Array, at: number, part: Int32Array): boolean {
  if (at + part.length > tokens.length) return false;
  return Buffer.compare(bytes(tokens, at, at + part.length), bytes(part, 0, part.length)) === 0;
}

const block = 4096;

/** Number of leading tokens that two arrays share. */
export function commonPrefixLength(a: Int32Array, b: Int32Array): number {
  const limit = Math.min(a.length, b.length);
  let at = 0;
  while (at < limit) {
    const end = Math.min(at + block, limit);
    if (Buffer.compare(bytes(a, at, end), bytes(b, at, end)) !== 0) break;
    at = end;
  }
  while (at < limit && a[at] === b[at]) at += 1;
  return at;
}

/** The hash of no tokens. */
export const emptyHash = 17;

/**
 * Polynomial hash (mod 2^32) of a token list, continued from the hash of what stands before `from`: the hash of a
 * chain costs its new tokens only. Collisions are possible; callers compare the tokens themselves.
 */
export function continueHash(hash: number, tokens: Int32Array, from = 0, to = tokens.length): number {
  let value = hash;
  for (let index = from; index < to; index += 1)
    value = (Math.imul(value, 0x01000193) + tokens[index]! + 1) | 0;
  return value;
}
