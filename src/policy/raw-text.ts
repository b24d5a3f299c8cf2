import type { Delta, TurnReader } from './completion-parser.ts';
import type { TurnContent } from './chat-template.ts';
import { asciiText, isSpecial, tokenBytes } from './tokenizer.ts';
import { completeLength, decodeBytes } from './wtf8.ts';

const none = new Uint8Array(0);

/**
 * Sampled ids as mere text, for the routes that parse nothing: thinking and calls stay in it, with their markers spelled
 * unless special tokens are skipped. Half a character is held back until it is whole.
 */
export class RawText implements TurnReader {
  readonly #skipSpecials: boolean;
  #held: Uint8Array = none;
  #text = '';

  constructor(skipSpecials: boolean) {
    this.#skipSpecials = skipSpecials;
  }

  push(id: number): Delta[] {
    const special = isSpecial(id);
    if (special && this.#skipSpecials) return this.#bytes(none, true);
    const ascii = this.#held.length === 0 && !special ? asciiText(id) : undefined;
    return ascii === undefined ? this.#bytes(tokenBytes(id), special) : this.#said(ascii);
  }

  flush(): Delta[] {
    return this.#bytes(none, true);
  }

  message(): TurnContent {
    this.flush();
    return { reasoning: '', content: this.#text, calls: [] };
  }

  #bytes(bytes: Uint8Array, all: boolean): Delta[] {
    const joined = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const edge = all ? joined.length : completeLength(joined);
    this.#held = joined.subarray(edge);
    return this.#said(decodeBytes(joined.subarray(0, edge)));
  }

  #said(text: string): Delta[] {
    if (text === '') return [];
    this.#text += text;
    return [{ kind: 'content', text }];
  }
}
