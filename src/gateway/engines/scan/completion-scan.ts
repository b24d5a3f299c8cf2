import { scanIds } from './id-list.ts';
import {
  arrayEnd,
  isText,
  objectEnd,
  openBrace,
  openBracket,
  skipSpace,
  unusual,
  valueEnd,
} from './json-bytes.ts';
import { scanEntries } from './logprob-entries.ts';

interface Json {
  [key: string]: unknown;
}

/** A list taken out of the bytes, and where in the parsed rest it belongs. */
interface Cut {
  readonly start: number;
  readonly end: number;
  readonly put: (root: Json) => void;
}

/** Lists of an answer to ids, beside its `token_logprobs`, that nobody reads. */
const unread = ['tokens', 'top_logprobs', 'text_offset'];

const firstChoice = (root: Json): Json => (root['choices'] as Json[])[0]!;

/** One pass over a completion's bytes. Throws nothing; `unusual` anywhere leaves the whole to the parser. */
class CompletionScan {
  readonly cuts: Cut[] = [];
  readonly #bytes: Uint8Array;
  readonly #seen = new Set<string>();

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  root(): number {
    return objectEnd(this.#bytes, skipSpace(this.#bytes, 0), (key, at) => {
      if (this.#is(key, 'prompt_token_ids')) {
        return this.#ids('root.prompt_token_ids', at, (root, ids) => (root['prompt_token_ids'] = ids));
      }
      if (this.#is(key, 'choices')) return this.#choices(at);
      return valueEnd(this.#bytes, at);
    });
  }

  #choices(at: number): number {
    if (!this.#once('choices')) return unusual;
    if (this.#bytes[at] !== openBracket) return valueEnd(this.#bytes, at);
    let index = 0;
    return arrayEnd(this.#bytes, at, (element) =>
      index++ === 0 && this.#bytes[element] === openBrace
        ? objectEnd(this.#bytes, element, this.#choiceMember)
        : valueEnd(this.#bytes, element),
    );
  }

  readonly #choiceMember = (key: number, at: number): number => {
    if (this.#is(key, 'token_ids')) {
      return this.#ids('token_ids', at, (root, ids) => (firstChoice(root)['token_ids'] = ids));
    }
    if (this.#is(key, 'prompt_token_ids')) {
      return this.#ids('prompt_token_ids', at, (root, ids) => (firstChoice(root)['prompt_token_ids'] = ids));
    }
    if (!this.#is(key, 'logprobs')) return valueEnd(this.#bytes, at);
    if (!this.#once('logprobs')) return unusual;
    if (this.#bytes[at] !== openBrace) return valueEnd(this.#bytes, at);
    return objectEnd(this.#bytes, at, (inner, value) => {
      if (this.#is(inner, 'content')) return this.#entries(value);
      return unread.some((name) => this.#is(inner, name))
        ? this.#leaveOut(value)
        : valueEnd(this.#bytes, value);
    });
  };

  #leaveOut(at: number): number {
    const end = valueEnd(this.#bytes, at);
    if (end !== unusual && this.#bytes[at] === openBracket) this.cuts.push({ start: at, end, put: () => {} });
    return end;
  }

  #ids(name: string, at: number, put: (root: Json, ids: Int32Array) => void): number {
    if (!this.#once(name)) return unusual;
    if (this.#bytes[at] !== openBracket) return valueEnd(this.#bytes, at);
    const scanned = scanIds(this.#bytes, at);
    if (scanned === null) return unusual;
    this.cuts.push({ start: at, end: scanned.end, put: (root) => put(root, scanned.ids) });
    return scanned.end;
  }

  #entries(at: number): number {
    if (!this.#once('content')) return unusual;
    if (this.#bytes[at] !== openBracket) return valueEnd(this.#bytes, at);
    const scanned = scanEntries(this.#bytes, at);
    if (scanned === null) return unusual;
    const put = (root: Json): void => {
      (firstChoice(root)['logprobs'] as Json)['content'] = scanned.entries;
    };
    this.cuts.push({ start: at, end: scanned.end, put });
    return scanned.end;
  }

  #is(key: number, name: string): boolean {
    return isText(this.#bytes, key, `"${name}"`);
  }

  /** A parser takes the last of two equal names; here that is the parser's business. */
  #once(name: string): boolean {
    if (this.#seen.has(name)) return false;
    this.#seen.add(name);
    return true;
  }
}

/**
 * A chat completion's JSON without decoding and parsing its long lists: ids of the prompt and of the first choice stand in
 * the result as Int32Array, the entries of its logprobs as LogprobList, all else as JSON.parse gives it. null where
 * anything is unusual (no such JSON, a name twice, an id that is none, deep nesting, NaN): then the bytes are to be
 * parsed. What is given is what parsing would have given, but that of the texts, rivals and offsets of an answer to ids a 0 is left.
 */
export function scanCompletion(bytes: Uint8Array): unknown {
  const scan = new CompletionScan(bytes);
  const end = scan.root();
  if (end === unusual || skipSpace(bytes, end) !== bytes.length) return null;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let rest = '';
  let from = 0;
  for (const { start, end: behind } of scan.cuts) {
    // The cuts lie between ASCII bytes: no character is split.
    rest += `${text.toString('utf8', from, start)}0`;
    from = behind;
  }
  const root = JSON.parse(rest + text.toString('utf8', from)) as Json;
  for (const { put } of scan.cuts) put(root);
  return root;
}
