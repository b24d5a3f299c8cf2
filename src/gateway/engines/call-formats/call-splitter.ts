import type { ToolDefinition } from '../../../contracts/index.ts';
import type { CallSyntax, SaidCall } from './call-syntax.ts';
import { firstMarker, heldLength, WaitingText } from './held-text.ts';

/**
 * Splits calls out of a text that comes in pieces. Text that may become a call is held back; a call comes whole. Where one
 * that cannot be read makes text of all, calls come at the end.
 */
export class CallSplitter {
  readonly #syntax: CallSyntax;
  readonly #tools: readonly ToolDefinition[];
  readonly #waiting = new WaitingText();
  /** All or none: what was read so far, and its text. */
  #read: (string | SaidCall)[] = [];
  #raw = '';
  /** All or none, and it is none. */
  #none = false;

  constructor(syntax: CallSyntax, tools: readonly ToolDefinition[]) {
    this.#syntax = syntax;
    this.#tools = tools;
  }

  push(piece: string): (string | SaidCall)[] {
    if (this.#none) return [piece];
    return this.#waiting.add(piece) ? this.#split(this.#waiting.take(), false) : [];
  }

  end(): (string | SaidCall)[] {
    const parts = this.#split(this.#waiting.take(), true);
    return [...parts, ...this.#read];
  }

  #split(text: string, final: boolean): (string | SaidCall)[] {
    const { openers, allOrNone = false } = this.#syntax;
    const parts: (string | SaidCall)[] = [];
    let from = 0;
    for (;;) {
      const opener = firstMarker(text, from, openers);
      if (opener === null) {
        const held = final ? 0 : heldLength(text.slice(from), openers);
        this.#waiting.wait(text.slice(text.length - held), null);
        text = text.slice(0, text.length - held);
        parts.push(text.slice(from));
        break;
      }
      const reading = this.#syntax.read(text, opener.at, final, this.#tools);
      parts.push(text.slice(from, opener.at));
      if (!('parts' in reading)) {
        this.#waiting.wait(text.slice(opener.at), reading.until);
        text = text.slice(0, opener.at);
        break;
      }
      if (allOrNone && reading.parts.some((part) => typeof part === 'string')) {
        this.#none = true;
        const raw = this.#raw + text;
        this.#read = [];
        this.#raw = '';
        return [raw];
      }
      parts.push(...reading.parts);
      from = reading.end;
    }
    return allOrNone ? this.#keep(parts, text) : parts;
  }

  /** Text in front of the first call is told; from there on everything is kept. */
  #keep(parts: readonly (string | SaidCall)[], text: string): (string | SaidCall)[] {
    const started = this.#read.length > 0;
    const first = started ? 0 : parts.findIndex((part) => typeof part !== 'string');
    const told = first < 0 ? parts : parts.slice(0, first);
    if (first < 0) return [...told];
    const length = told.reduce((sum, part) => sum + (typeof part === 'string' ? part.length : 0), 0);
    this.#raw += text.slice(length);
    this.#read.push(...parts.slice(first));
    return [...told];
  }
}
