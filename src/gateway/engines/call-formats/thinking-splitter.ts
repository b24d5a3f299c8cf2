import type { CallSyntax } from './call-syntax.ts';
import { heldLength, WaitingText } from './held-text.ts';

export interface Thought {
  readonly kind: 'reasoning' | 'text';
  readonly text: string;
}

type State = 'start' | 'unsure' | 'reasoning' | 'ending' | 'text';

/**
 * Splits the thinking off the front of a text that comes in pieces. `opened`: whether the prompt opened it already;
 * undefined where that is not known: a closing marker anywhere in the text then says so, and until it comes nothing can
 * be told of a text that does not begin with an opening one. Thinking that is cut is all there is.
 */
export class ThinkingSplitter {
  readonly #syntax: CallSyntax;
  readonly #opened: boolean | undefined;
  readonly #waiting = new WaitingText();
  #state: State = 'start';
  #said: Thought[] = [];

  constructor(syntax: CallSyntax, opened: boolean | undefined) {
    this.#syntax = syntax;
    this.#opened = opened;
  }

  push(piece: string): Thought[] {
    if (this.#state === 'text') return piece === '' ? [] : [{ kind: 'text', text: piece }];
    if (!this.#waiting.add(piece)) return [];
    this.#read(this.#waiting.take(), false);
    return this.#told();
  }

  end(): Thought[] {
    this.#read(this.#waiting.take(), true);
    return this.#told();
  }

  #told(): Thought[] {
    const said = this.#said;
    this.#said = [];
    return said;
  }

  #say(kind: Thought['kind'], text: string): void {
    if (text !== '') this.#said.push({ kind, text });
  }

  #read(text: string, final: boolean): void {
    const [, close] = this.#syntax.thinking;
    if (this.#state === 'start') {
      this.#start(text, final);
    } else if (this.#state === 'reasoning') {
      this.#reason(text, final);
    } else if (this.#state === 'unsure' || this.#state === 'ending') {
      const at = text.indexOf(close);
      if (at >= 0) this.#close(text, at);
      else if (!final) this.#waiting.wait(text, [close]);
      else if (this.#state === 'unsure') this.#say('text', text);
      else this.#endImplied(text);
    } else {
      this.#say('text', text);
    }
  }

  #start(text: string, final: boolean): void {
    const [open] = this.#syntax.thinking;
    const front = text.trimStart();
    if (!final && front.length < open.length && open.startsWith(front)) {
      this.#waiting.wait(text, null);
      return;
    }
    const begins = front.startsWith(open);
    this.#state =
      begins || this.#opened === true ? 'reasoning' : this.#opened === undefined ? 'unsure' : 'text';
    this.#read(begins ? front.slice(open.length) : text, final);
  }

  #reason(text: string, final: boolean): void {
    const [, close] = this.#syntax.thinking;
    const at = text.indexOf(close);
    if (at >= 0) {
      this.#close(text, at);
      return;
    }
    const call = this.#callAt(text, 0);
    if (call >= 0) {
      this.#say('reasoning', text.slice(0, call));
      this.#state = 'ending';
      this.#read(text.slice(call), final);
      return;
    }
    const held = final ? 0 : heldLength(text, [close, ...(this.#syntax.endsThinking?.slice(0, 1) ?? [])]);
    this.#say('reasoning', text.slice(0, text.length - held));
    this.#waiting.wait(text.slice(text.length - held), null);
  }

  #close(text: string, at: number): void {
    const [, close] = this.#syntax.thinking;
    this.#say('reasoning', text.slice(0, at));
    this.#state = 'text';
    this.#say('text', text.slice(at + close.length));
  }

  /** Where a call begins, or may begin, that would end the thinking; -1 where none does. */
  #callAt(text: string, from: number, surely = false): number {
    const { endsThinking } = this.#syntax;
    if (endsThinking === undefined) return -1;
    const [opener, next] = endsThinking;
    for (let at = text.indexOf(opener, from); at >= 0; at = text.indexOf(opener, at + 1)) {
      const behind = text.slice(at + opener.length).trimStart();
      if (behind.startsWith(next) || (!surely && next.startsWith(behind))) return at;
    }
    return -1;
  }

  /** The thinking was never closed: it ends where a call begins. */
  #endImplied(text: string): void {
    const call = this.#callAt(text, 0, true);
    this.#state = 'text';
    this.#say('reasoning', call < 0 ? text : text.slice(0, call));
    if (call >= 0) this.#say('text', text.slice(call));
  }
}
