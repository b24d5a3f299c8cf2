import { closeBracket, comma, skipSpace } from './json-bytes.ts';

/** The largest id that an Int32Array holds. */
const largestId = 0x7fffffff;

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
  let list = scratch;
  let count = 0;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBracket) return { ids: new Int32Array(0), end: at + 1 };
  for (;;) {
    const start = at;
    let id = 0;
    let byte = bytes[at];
    while (byte !== undefined && byte >= 0x30 && byte <= 0x39) {
      id = id * 10 + (byte - 0x30);
      byte = bytes[++at];
    }
    const digits = at - start;
    if (digits === 0 || digits > 10 || id > largestId || (digits > 1 && bytes[start] === 0x30)) return null;
    if (count === list.length) {
      const longer = new Int32Array(count * 2);
      longer.set(list);
      list = longer;
    }
    list[count++] = id;
    if (byte !== comma) {
      at = skipSpace(bytes, at);
      byte = bytes[at];
      if (byte === closeBracket) break;
      if (byte !== comma) return null;
    }
    at = skipSpace(bytes, at + 1);
  }
  if (list.length <= scratchKept) scratch = list;
  return { ids: list.slice(0, count), end: at + 1 };
}
