const encoder = new TextEncoder();
// The BOM is text like any other: without ignoreBOM a decoder would drop it.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const loneSurrogate = /\p{Surrogate}/u;

/**
 * UTF-8 bytes of any JavaScript string. A lone surrogate, which UTF-8 has no place for, becomes the three bytes
 * its code point would have (WTF-8), so that decoding gives it back.
 */
export function encodeBytes(text: string): Uint8Array {
  if (!loneSurrogate.test(text)) return encoder.encode(text);
  const bytes: number[] = [];
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    if (point >= 0xd800 && point <= 0xdfff) {
      bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f));
    } else {
      bytes.push(...encoder.encode(character));
    }
  }
  return Uint8Array.from(bytes);
}

/** Length of the sequence a first byte announces; 1 for bytes that cannot begin one. */
function announced(byte: number): number {
  if (byte >= 0xc2 && byte <= 0xdf) return 2;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  if (byte >= 0xf0 && byte <= 0xf4) return 4;
  return 1;
}

function codePoint(bytes: Uint8Array, at: number, length: number): number | null {
  if (at + length > bytes.length) return null;
  let point = (bytes[at] ?? 0) & (0xff >> (length + 1));
  for (let offset = 1; offset < length; offset += 1) {
    const byte = bytes[at + offset] ?? 0;
    if ((byte & 0xc0) !== 0x80) return null;
    point = (point << 6) | (byte & 0x3f);
  }
  const smallest = [0, 0, 0x80, 0x800, 0x10000][length] ?? 0;
  return point >= smallest && point <= 0x10ffff ? point : null;
}

/** Text of WTF-8 bytes; a byte that belongs to no character becomes U+FFFD. */
export function decodeBytes(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    // Not UTF-8: surrogates or a cut character. Decode by hand below.
  }
  let text = '';
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at] ?? 0;
    const length = announced(byte);
    const point = length === 1 ? (byte < 0x80 ? byte : null) : codePoint(bytes, at, length);
    text += point === null ? '\ufffd' : String.fromCodePoint(point);
    at += point === null ? 1 : length;
  }
  return text;
}

/** How many leading bytes end on a character's edge: the rest may still become a character. */
export function completeLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes.length;
    if (byte >= 0xc0) return announced(byte) > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
