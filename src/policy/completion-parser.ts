import type { TurnContent } from './chat-template.ts';
import { pythonDumps, pythonLoads, type PythonValue } from './python-json.ts';
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

type Mode = 'content' | 'reasoning' | 'name' | 'arguments' | 'json';

interface ReadCall {
  readonly name: string;
  arguments: string;
  closed: boolean;
}

/** How a call in JSON begins, up to where its arguments do. */
const jsonHead = /^\s*\{\s*"name":\s*("(?:[^"\\]|\\.)*"),\s*"arguments":\s*/;

/** Without what may be the end of the call, not of its arguments. */
function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && /[\s}]/.test(text[end - 1] ?? '')) end -= 1;
  return text.slice(0, end);
}

/** What an engine's parser makes of a call in JSON: its arguments are parsed and dumped again. Null when it is none. */
function parsedCall(body: string): { name: string; arguments: string } | null {
  try {
    const call = pythonLoads(body);
    if (!(call instanceof Map)) return null;
    const name: unknown = call.get('name');
    const given = (call as ReadonlyMap<string, PythonValue>).get('arguments');
    return typeof name === 'string' && given !== undefined ? { name, arguments: pythonDumps(given) } : null;
  } catch {
    return null;
  }
}

/**
 * Turns sampled ids into a message, token by token. Bytes of a character that is not whole yet are held back, so no
 * delta ever carries half a character. Without tools the call markup is text, as in an engine without a tool parser. Calls
 * are read in both formats that the policy writes.
 */
export class CompletionParser implements TurnReader {
  readonly #tools: boolean;
  #mode: Mode = 'content';
  #held: Uint8Array = new Uint8Array(0);
  /** The text of the call so far: its name, or all of a call in JSON. */
  #body = '';
  #reasoning = '';
  #content = '';
  #whole = '';
  readonly #calls: ReadCall[] = [];
  /** Those of a whole answer, which an engine parses anew; null: one of them could not be read. */
  #parsed: { name: string; arguments: string }[] | null = [];

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
      this.#body = '';
    } else if (id === callEnd && this.#mode !== 'content' && this.#mode !== 'reasoning') {
      const deltas = this.#close();
      this.#mode = 'content';
      return deltas;
    }
    return [];
  }

  #close(): Delta[] {
    const deltas =
      this.#mode === 'name' ? this.#open(this.#body) : this.#mode === 'json' ? this.#json(true) : [];
    const current = this.#calls.at(-1);
    const read = this.#mode === 'json' ? parsedCall(this.#body) : current;
    if (read === null || read === undefined) this.#parsed = null;
    else this.#parsed?.push(read);
    if (current !== undefined) current.closed = true;
    return deltas;
  }

  #open(name: string): Delta[] {
    this.#calls.push({ name, arguments: '', closed: false });
    return [{ kind: 'call', index: this.#calls.length - 1, name }];
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
    if (this.#mode === 'arguments') return this.#argue(text);
    this.#body += text;
    if (this.#mode === 'name' && /^\s*(?:\{|\n)/.test(this.#body)) this.#mode = 'json';
    return this.#mode === 'json' ? this.#json(false) : this.#line();
  }

  /** A name that ends with its line. */
  #line(): Delta[] {
    const end = this.#body.indexOf('\n');
    if (end < 0) return [];
    this.#mode = 'arguments';
    return [...this.#open(this.#body.slice(0, end)), ...this.#argue(this.#body.slice(end + 1))];
  }

  /** What is new of a call in JSON: not the bracket that ends it. */
  #json(closed: boolean): Delta[] {
    const head = jsonHead.exec(this.#body);
    if (head === null) return [];
    const last = this.#calls.at(-1);
    const opened = last === undefined || last.closed ? this.#open(JSON.parse(head[1] ?? '') as string) : [];
    const behind = this.#body.slice(head[0].length);
    const given = closed ? behind.trimEnd().replace(/\s*\}$/, '') : withoutEnd(behind);
    return [...opened, ...this.#argue(given.slice(this.#calls.at(-1)?.arguments.length ?? 0))];
  }

  #argue(text: string): Delta[] {
    const index = this.#calls.length - 1;
    const current = this.#calls[index];
    if (current === undefined || text === '') return [];
    current.arguments += text;
    return [{ kind: 'arguments', index, text }];
  }

  get #unreadable(): boolean {
    return this.#parsed === null || (this.#mode !== 'content' && this.#mode !== 'reasoning');
  }

  /**
   * The message of a whole answer. A call that was not closed, or cannot be read, is no call: everything outside the
   * thinking is then text, markup included, as engines that parse the finished text give it.
   */
  message(): TurnContent {
    this.flush();
    if (this.#unreadable) return { reasoning: this.#reasoning, content: this.#whole, calls: [] };
    return { reasoning: this.#reasoning, content: this.#content, calls: this.#parsed ?? [] };
  }

  /** As `message`, with arguments as they were written. */
  written(): TurnContent {
    const message = this.message();
    return this.#unreadable ? message : this.streamed();
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
