import { firstPieceId, firstSpecialId, specialText, splitSpecials } from './special-tokens.ts';
import { longestAt, pieces } from './vocabulary.ts';
import { decodeBytes, encodeBytes } from './wtf8.ts';

/** Appends the canonical ids of plain text: from left to right, always the longest piece. */
function encodeInto(ids: number[], text: string): void {
  const bytes = encodeBytes(text);
  for (let at = 0; at < bytes.length;) {
    const match = longestAt(bytes, at);
    ids.push(match.id);
    at += match.length;
  }
}

/** Canonical ids of plain text. A special token spelled in it stays text. */
export function encodeText(text: string): number[] {
  const ids: number[] = [];
  encodeInto(ids, text);
  return ids;
}

/** As `encodeText`, but spelled special tokens become their single ids: what `/tokenize` does with a prompt. */
export function encodeWithSpecials(text: string): number[] {
  const ids: number[] = [];
  for (const part of splitSpecials(text)) {
    if (typeof part === 'number') ids.push(part);
    else encodeInto(ids, part);
  }
  return ids;
}

const pieceBytes = pieces.map((piece) => encodeBytes(piece));
const empty = new Uint8Array(0);

/** Bytes of one token; none for ids nobody has. */
export function tokenBytes(id: number): Uint8Array {
  if (id >= firstPieceId) return pieceBytes[id - firstPieceId] ?? empty;
  if (id < firstSpecialId) return id >= 0 ? Uint8Array.of(id) : empty;
  const text = specialText(id);
  return text === undefined ? empty : encodeBytes(text);
}

/** Text of a token that is ASCII through and through; undefined for all others. */
export function asciiText(id: number): string | undefined {
  if (id >= firstPieceId) return pieces[id - firstPieceId];
  return id < 128 ? String.fromCharCode(id) : undefined;
}

export function isToken(id: number): boolean {
  return Number.isInteger(id) && tokenBytes(id).length > 0;
}

export function isSpecial(id: number): boolean {
  return id >= firstSpecialId && id < firstPieceId;
}

/** Bytes of a run of tokens. */
export function joinBytes(ids: Iterable<number>, skipSpecials = false): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const id of ids) if (!skipSpecials || !isSpecial(id)) parts.push(tokenBytes(id));
  return Buffer.concat(parts);
}

/** Text of tokens: decode(encode(text)) = text for every JavaScript string. */
export function decodeTokens(ids: Iterable<number>, skipSpecials = false): string {
  return decodeBytes(joinBytes(ids, skipSpecials));
}
