/**
 * JSON's grammar (RFC 8259) over UTF-8 bytes. Every function takes the position of a token's first byte and gives the
 * position behind it, or `unusual` where the bytes are no JSON, or JSON that is left to a full parser. Bytes of
 * multi-byte characters are never quotes or backslashes, and a decoder that replaces broken ones swallows no ASCII byte,
 * so the structure is the one a parser finds in the decoded text.
 */
export const unusual = -1;

/** Nesting that is followed; deeper is left to the parser, which does not work on the stack. */
const deepest = 64;

export const space = 0x20;
export const quote = 0x22;
export const backslash = 0x5c;
export const comma = 0x2c;
export const colon = 0x3a;
export const minus = 0x2d;
export const point = 0x2e;
export const openBrace = 0x7b;
export const closeBrace = 0x7d;
export const openBracket = 0x5b;
export const closeBracket = 0x5d;

export function skipSpace(bytes: Uint8Array, at: number): number {
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
  }
  return at;
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66);
}

/** Behind an escape whose backslash stands at `at`. */
function escapeEnd(bytes: Uint8Array, at: number): number {
  switch (bytes[at + 1]) {
    case quote:
    case backslash:
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return at + 2;
    case 0x75: // u
      for (let digit = at + 2; digit < at + 6; digit++) if (!isHex(bytes[digit])) return unusual;
      return at + 6;
    default:
      return unusual;
  }
}

export function stringEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== quote) return unusual;
  for (at++; at < bytes.length;) {
    const byte = bytes[at]!;
    if (byte === quote) return at + 1;
    if (byte === backslash) {
      at = escapeEnd(bytes, at);
      if (at === unusual) return unusual;
    } else if (byte < 0x20) {
      return unusual;
    } else {
      at++;
    }
  }
  return unusual;
}

function digitsEnd(bytes: Uint8Array, at: number): number {
  const start = at;
  while (at < bytes.length && bytes[at]! >= 0x30 && bytes[at]! <= 0x39) at++;
  return at === start ? unusual : at;
}

export function numberEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] === minus) at++;
  at = bytes[at] === 0x30 ? at + 1 : digitsEnd(bytes, at);
  if (at === unusual || at >= bytes.length) return at;
  if (bytes[at] === point) {
    at = digitsEnd(bytes, at + 1);
    if (at === unusual || at >= bytes.length) return at;
  }
  if ((bytes[at]! | 0x20) === 0x65) {
    const sign = bytes[at + 1];
    at = digitsEnd(bytes, sign === minus || sign === 0x2b ? at + 2 : at + 1);
  }
  return at;
}

/** Whether these ASCII characters stand at `at`. */
export function isText(bytes: Uint8Array, at: number, text: string): boolean {
  if (at + text.length > bytes.length) return false;
  for (let index = 0; index < text.length; index++) {
    if (bytes[at + index] !== text.charCodeAt(index)) return false;
  }
  return true;
}

function wordEnd(bytes: Uint8Array, at: number, word: string): number {
  return isText(bytes, at, word) ? at + word.length : unusual;
}

/** Behind `null`, or `unusual`. */
export function nullEnd(bytes: Uint8Array, at: number): number {
  return wordEnd(bytes, at, 'null');
}

/** Any value. */
export function valueEnd(bytes: Uint8Array, at: number, depth = 0): number {
  switch (bytes[at]) {
    case quote:
      return stringEnd(bytes, at);
    case openBracket: {
      const end = digitListEnd(bytes, at);
      if (end !== unusual) return end;
      return depth < deepest ? nestedEnd(bytes, at, depth + 1) : unusual;
    }
    case openBrace:
      return depth < deepest ? nestedEnd(bytes, at, depth + 1) : unusual;
    case 0x74:
      return wordEnd(bytes, at, 'true');
    case 0x66:
      return wordEnd(bytes, at, 'false');
    case 0x6e:
      return nullEnd(bytes, at);
    default:
      return numberEnd(bytes, at);
  }
}

/** A list of whole numbers without spaces, as tokens' bytes are listed; `unusual` for any other. */
export function digitListEnd(bytes: Uint8Array, at: number): number {
  let start = ++at;
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte >= 0x30 && byte <= 0x39) continue;
    if (at === start || (bytes[start] === 0x30 && at > start + 1)) return unusual;
    if (byte === closeBracket) return at + 1;
    if (byte !== comma) return unusual;
    start = at + 1;
  }
  return unusual;
}

/** An array or object in whose members nobody is interested. */
function nestedEnd(bytes: Uint8Array, at: number, depth: number): number {
  const isObject = bytes[at] === openBrace;
  const close = isObject ? closeBrace : closeBracket;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === close) return at + 1;
  for (;;) {
    if (isObject) {
      at = stringEnd(bytes, at);
      if (at === unusual) return unusual;
      at = skipSpace(bytes, at);
      if (bytes[at] !== colon) return unusual;
      at = skipSpace(bytes, at + 1);
    }
    at = valueEnd(bytes, at, depth);
    if (at === unusual) return unusual;
    at = skipSpace(bytes, at);
    const byte = bytes[at];
    if (byte === close) return at + 1;
    if (byte !== comma) return unusual;
    at = skipSpace(bytes, at + 1);
  }
}

/** An array; `element` is given where each value begins, and gives where it ends. */
export function arrayEnd(bytes: Uint8Array, at: number, element: (at: number) => number): number {
  if (bytes[at] !== openBracket) return unusual;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBracket) return at + 1;
  for (;;) {
    at = element(at);
    if (at === unusual) return unusual;
    at = skipSpace(bytes, at);
    if (bytes[at] === closeBracket) return at + 1;
    if (bytes[at] !== comma) return unusual;
    at = skipSpace(bytes, at + 1);
  }
}

export function hasEscape(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (bytes[at] === backslash) return true;
  return false;
}

/**
 * An object; `member` is given where each key's quote and its value stand, and gives where the value ends. A key with an escape is `unusual`: it may spell any name.
 */
export function objectEnd(
  bytes: Uint8Array,
  at: number,
  member: (key: number, value: number) => number,
): number {
  if (bytes[at] !== openBrace) return unusual;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBrace) return at + 1;
  for (;;) {
    const key = at;
    at = stringEnd(bytes, key);
    if (at === unusual || hasEscape(bytes, key, at)) return unusual;
    at = skipSpace(bytes, at);
    if (bytes[at] !== colon) return unusual;
    at = member(key, skipSpace(bytes, at + 1));
    if (at === unusual) return unusual;
    at = skipSpace(bytes, at);
    if (bytes[at] === closeBrace) return at + 1;
    if (bytes[at] !== comma) return unusual;
    at = skipSpace(bytes, at + 1);
  }
}
