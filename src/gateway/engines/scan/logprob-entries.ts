import { LogprobList, namedId } from '../completion-parts.ts';
import { putFloat32 } from './float32.ts';
import {
  closeBrace,
  closeBracket,
  colon,
  comma,
  digitListEnd,
  hasEscape,
  isText,
  nullEnd,
  openBrace,
  skipSpace,
  stringEnd,
  backslash,
  openBracket,
  quote,
  unusual,
  valueEnd,
} from './json-bytes.ts';
import { Literal } from './words.ts';

/** A token's text as a parser decodes it: escapes count. */
function tokenText(bytes: Uint8Array, start: number, end: number): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
  return JSON.parse(text) as string;
}

/** Entries are read into these and copied out at their number. */
let logprobScratch = new Float32Array(2 ** 12);
let idScratch = new Int32Array(2 ** 12);
const scratchKept = 2 ** 18;

/** What stands in every entry as vLLM writes it, around the token's text, its logprob and its bytes. */
const beforeToken = new Literal('{"token":"');
const beforeLogprob = new Literal(',"logprob":');
const beforeBytes = new Literal(',"bytes":');
const behindBytes = new Literal(',"top_logprobs":[]}');

/** One pass over a list of entries. */
class EntryScan {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #logprobs = logprobScratch;
  #ids = idScratch;
  #count = 0;
  /** Whether every token so far named an id; mostly the first does not. */
  #allNamed = true;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** The list whose bracket stands at `at`. */
  list(at: number): number {
    const bytes = this.#bytes;
    at = skipSpace(bytes, at + 1);
    if (bytes[at] === closeBracket) return at + 1;
    for (;;) {
      if (this.#count === this.#logprobs.length) this.#grow();
      const usual = this.#allNamed ? unusual : this.#usualEntry(at);
      at = usual === unusual ? this.#entry(at) : usual;
      if (at === unusual) return unusual;
      this.#count++;
      at = skipSpace(bytes, at);
      if (bytes[at] === closeBracket) return at + 1;
      if (bytes[at] !== comma) return unusual;
      at = skipSpace(bytes, at + 1);
    }
  }

  /** An entry that names no id, in the one form that vLLM has for it; `unusual` for any other. */
  #usualEntry(at: number): number {
    const bytes = this.#bytes;
    const view = this.#view;
    if (!beforeToken.standsAt(view, at)) return unusual;
    for (at += beforeToken.length; bytes[at] !== quote; at++) {
      // Out of bounds too.
      if (!(bytes[at]! >= 0x20) || bytes[at] === backslash) return unusual;
    }
    at++;
    if (!beforeLogprob.standsAt(view, at)) return unusual;
    at = putFloat32(bytes, view, at + beforeLogprob.length, this.#logprobs, this.#count);
    if (at === unusual || !beforeBytes.standsAt(view, at)) return unusual;
    at += beforeBytes.length;
    at = bytes[at] === openBracket ? digitListEnd(bytes, at) : nullEnd(bytes, at);
    if (at === unusual || !behindBytes.standsAt(view, at)) return unusual;
    return at + behindBytes.length;
  }

  #entry(at: number): number {
    const bytes = this.#bytes;
    let hasToken = false;
    let hasLogprob = false;
    if (bytes[at] !== openBrace) return unusual;
    at = skipSpace(bytes, at + 1);
    while (bytes[at] !== closeBrace) {
      // A name that stands twice, or may do so by its escapes, is left to the parser.
      if (isText(bytes, at, '"logprob"')) {
        if (hasLogprob) return unusual;
        hasLogprob = true;
        at = skipSpace(bytes, at + 9);
        if (bytes[at] !== colon) return unusual;
        at = this.#logprob(skipSpace(bytes, at + 1));
      } else if (isText(bytes, at, '"token"')) {
        if (hasToken) return unusual;
        hasToken = true;
        at = skipSpace(bytes, at + 7);
        if (bytes[at] !== colon) return unusual;
        at = this.#token(skipSpace(bytes, at + 1));
      } else {
        const key = at;
        at = stringEnd(bytes, key);
        if (at === unusual || hasEscape(bytes, key, at)) return unusual;
        at = skipSpace(bytes, at);
        if (bytes[at] !== colon) return unusual;
        at = valueEnd(bytes, skipSpace(bytes, at + 1));
      }
      if (at === unusual) return unusual;
      at = skipSpace(bytes, at);
      if (bytes[at] === comma) {
        at = skipSpace(bytes, at + 1);
        if (bytes[at] === closeBrace) return unusual;
      } else if (bytes[at] !== closeBrace) {
        return unusual;
      }
    }
    if (!hasToken) this.#allNamed = false;
    if (!hasLogprob) this.#logprobs[this.#count] = NaN;
    return at + 1;
  }

  #logprob(at: number): number {
    const end = putFloat32(this.#bytes, this.#view, at, this.#logprobs, this.#count);
    if (end !== unusual) return end;
    this.#logprobs[this.#count] = NaN;
    return nullEnd(this.#bytes, at);
  }

  #token(at: number): number {
    const end = stringEnd(this.#bytes, at);
    if (this.#allNamed && end !== unusual) {
      const id = namedId(tokenText(this.#bytes, at, end));
      if (id === null) this.#allNamed = false;
      else this.#ids[this.#count] = id;
    }
    return end;
  }

  #grow(): void {
    const logprobs = new Float32Array(this.#count * 2);
    logprobs.set(this.#logprobs);
    this.#logprobs = logprobs;
    const ids = new Int32Array(this.#count * 2);
    ids.set(this.#ids);
    this.#ids = ids;
  }

  take(): LogprobList {
    const count = this.#count;
    if (this.#logprobs.length <= scratchKept) {
      logprobScratch = this.#logprobs;
      idScratch = this.#ids;
    }
    const named = this.#allNamed && count > 0;
    return new LogprobList(this.#logprobs.slice(0, count), named ? this.#ids.slice(0, count) : null);
  }
}

/** The entries of `logprobs.content`, one a sampled token, whose bracket stands at `at`; null where it, or what a parser would make of it, is unusual. */
export function scanEntries(
  bytes: Uint8Array,
  at: number,
): { readonly entries: LogprobList; readonly end: number } | null {
  const scan = new EntryScan(bytes);
  const end = scan.list(at);
  return end === unusual ? null : { entries: scan.take(), end };
}
