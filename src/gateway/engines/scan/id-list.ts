import { closeBracket, comma, skipSpace, space } from './json-bytes.ts';
import { fourDigits } from './words.ts';

/** The largest id that an Int32Array holds. */
const largestId = 0x7fffffff;
/** Digits that an Int32Array holds whatever they are. No vocabulary needs more. */
const digitsHeld = 9;

/** An id of more digits than that; -1 where it is too large. */
function longId(bytes: Uint8Array, start: number, end: number): number {
  let id = 0;
  for (let at = start; at < end && id <= largestId; at++) id = id * 10 + (bytes[at]! - 0x30);
  return id > largestId ? -1 : id;
}

/** Ids out of the bytes, and where their list ends. */
export interface ScannedIds {
  readonly ids: Int32Array;
  readonly end: number;
}

/** Lists are read into this one and copied out at their length; what an unusually long one needed is let go again. */
let scratch = new Int32Array(2 ** 15);
const scratchKept = 2 ** 18;

/**
 * A list of ids whose bracket stands at `at`. null where it is anything but whole numbers from 0 to 2^31 - 1, written in digits
 * alone: what `1.0`, `1e3` or `-1` are is the parser's business.
 */
export function scanIds(bytes: Uint8Array, at: number): ScannedIds | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const lastWord = bytes.length - 4;
  let list = scratch;
  let count = 0;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBracket) return { ids: new Int32Array(0), end: at + 1 };
  for (;;) {
    const start = at;
    let id = at <= lastWord ? fourDigits(view.getInt32(at, true)) : -1;
    if (id < 0) id = 0;
    else at += 4;
    for (; at < bytes.length; at++) {
      const digit = bytes[at]! - 0x30;
      if (digit < 0 || digit > 9) break;
      id = (Math.imul(id, 10) + digit) | 0;
    }
    const digits = at - start;
    if (digits > digitsHeld) id = longId(bytes, start, at);
    if (digits === 0 || id < 0 || (digits > 1 && bytes[start] === 0x30)) return null;
    if (count === list.length) {
      const longer = new Int32Array(count * 2);
      longer.set(list);
      list = longer;
    }
    list[count++] = id;
    if (bytes[at] !== comma) {
      at = skipSpace(bytes, at);
      if (bytes[at] === closeBracket) break;
      if (bytes[at] !== comma) return null;
    }
    at++;
    // Mostly a digit; the call costs more than the look.
    if (bytes[at]! <= space) at = skipSpace(bytes, at);
  }
  if (list.length <= scratchKept) scratch = list;
  return { ids: list.slice(0, count), end: at + 1 };
}
