import type { TurnContent } from './chat-template.ts';
import { specialId, specialText } from './special-tokens.ts';
import { asciiText, isSpecial, tokenBytes } from './tokenizer.ts';
import { completeLength, decodeBytes } from './wtf8.ts';

/** What one token adds to the message, as a streamed delta would say it. */
export type Delta =
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'call'; readonly index: number; readonly name: string }
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string };

/** Reads sampled ids, token by token. */
export interface TurnReader {
  push(id: number): Delta[];
  /** Bytes that never became a character, at the end. */
  flush(): Delta[];
  /** The message of the whole answer. */
  message(): TurnContent;
}

const think = specialId('<think>');
const thinkEnd = specialId('</think>');
const call = specialId('<tool_call>');
const callEnd = specialId('</tool_call>');

type Mode = 'content' | 'reasoning' | 'name' | 'arguments';

/**
 * Turns sampled ids into a message, token by token. Bytes of a character that is not whole yet are held back, so no
 * delta ever carries half a character. Without tools the call markup is text, as in an engine without a tool parser.
 */
export class CompletionParser implements TurnReader {
  readonly #tools: boolean;
  #mode: Mode = 'content';
  #held: Uint8Array = new Uint8Array(0);
  #name = '';
  #reasoning = '';
  #content = '';
  #whole = '';
  readonly #calls: { name: string; arguments: string; closed: boolean }[] = [];

  constructor(tools: boolean) {
    this.#tools = tools;
  }

  push(id: number): Delta[] {
    if (!isSpecial(id)) {
      const ascii = this.#held.length === 0 ? asciiText(id) : undefined;
      return ascii === undefined ? this.#bytes(tokenBytes(id), false) : this.#text(ascii);
    }
    const deltas = this.#bytes(new Uint8Array(0), true);
    if (id === think && this.#mode === 'content') this.#mode = 'reasoning';
    else if (id === thinkEnd && this.#mode === 'reasoning') this.#mode = 'content';
    else if (id === call || id === callEnd) deltas.push(...this.#markup(id));
    return deltas;
  }

  flush(): Delta[] {
    return this.#bytes(new Uint8Array(0), true);
  }

  #markup(id: number): Delta[] {
    this.#whole += specialText(id) ?? '';
    if (!this.#tools) {
      this.#content += specialText(id) ?? '';
      return [{ kind: 'content', text: specialText(id) ?? '' }];
    }
    if (id === call && this.#mode === 'content') {
      this.#mode = 'name';
      this.#name = '';
    } else if (id === callEnd && this.#mode !== 'content' && this.#mode !== 'reasoning') {
      const opened = this.#mode === 'name' ? this.#open() : [];
      const current = this.#calls.at(-1);
      if (current !== undefined) current.closed = true;
      this.#mode = 'content';
      return opened;
    }
    return [];
  }

  #open(): Delta[] {
    this.#calls.push({ name: this.#name, arguments: '', closed: false });
    return [{ kind: 'call', index: this.#calls.length - 1, name: this.#name }];
  }

  #bytes(bytes: Uint8Array, all: boolean): Delta[] {
    if (bytes.length === 0 && this.#held.length === 0) return [];
    const joined = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const edge = all ? joined.length : completeLength(joined);
    this.#held = joined.subarray(edge);
    const text = decodeBytes(joined.subarray(0, edge));
    return text === '' ? [] : this.#text(text);
  }

  #text(text: string): Delta[] {
    if (this.#mode === 'reasoning') {
      this.#reasoning += text;
      return [{ kind: 'reasoning', text }];
    }
    this.#whole += text;
    if (this.#mode === 'content') {
      this.#content += text;
      return [{ kind: 'content', text }];
    }
    return this.#callText(text);
  }

  #callText(text: string): Delta[] {
    const deltas: Delta[] = [];
    let rest = text;
    if (this.#mode === 'name') {
      const end = text.indexOf('\n');
      this.#name += end < 0 ? text : text.slice(0, end);
      if (end < 0) return [];
      rest = text.slice(end + 1);
      deltas.push(...this.#open());
      this.#mode = 'arguments';
    }
    const index = this.#calls.length - 1;
    const current = this.#calls[index];
    if (current !== undefined && rest !== '') {
      current.arguments += rest;
      deltas.push({ kind: 'arguments', index, text: rest });
    }
    return deltas;
  }

  /**
   * The message of a whole answer. A call that was not closed is no call: everything outside the thinking is then
   * text, markup included, as engines that parse the finished text give it.
   */
  message(): TurnContent {
    this.flush();
    const open = this.#mode === 'name' || this.#mode === 'arguments';
    if (open) return { reasoning: this.#reasoning, content: this.#whole, calls: [] };
    return { ...this.streamed() };
  }

  /** The message a client puts together from the deltas: a call that was not closed stays a call. */
  streamed(): TurnContent {
    return {
      reasoning: this.#reasoning,
      content: this.#content,
      calls: this.#calls.map(({ name, arguments: text }) => ({ name, arguments: text })),
    };
  }
}
