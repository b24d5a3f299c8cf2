import type { ToolDefinition } from '../../../contracts/index.ts';
import type { AnswerDelta, Spoken } from '../engine.ts';
import type { CallFormat } from './call-format.ts';
import { CallSplitter } from './call-splitter.ts';
import type { CallSyntax, SaidCall } from './call-syntax.ts';
import { syntaxes } from './syntaxes.ts';
import { ThinkingSplitter, type Thought } from './thinking-splitter.ts';

export interface GeneratedTextOptions {
  /** Without tools no calls are read. */
  readonly tools: readonly ToolDefinition[] | undefined;
  readonly format: CallFormat;
  /**
   * Whether the prompt ends in opened thinking. Default: not known; a closing marker in the text tells, and a stream of
   * text that does not begin with thinking is then told only at its end.
   */
  readonly thinking?: boolean | undefined;
}

/**
 * What a sampled text says, read while it comes: for answers of routes that parse nothing. Text that may become a marker
 * waits; a call is told whole. Put together, the deltas are what `parseGeneratedText` reads out of the whole.
 */
export class GeneratedTextStream {
  readonly #thinking: ThinkingSplitter;
  readonly #calls: CallSplitter | null;
  #reasoning = '';
  #content = '';
  readonly #said: SaidCall[] = [];
  /** White space that is text only if more follows: null where all text counts. */
  #blank: string | null;
  #deltas: AnswerDelta[] = [];

  constructor({ tools, format, thinking }: GeneratedTextOptions) {
    const syntax: CallSyntax = syntaxes[format];
    this.#thinking = new ThinkingSplitter(syntax, thinking);
    this.#calls = tools === undefined || tools.length === 0 ? null : new CallSplitter(syntax, tools);
    this.#blank = this.#calls !== null && syntax.dropsBlankLead === true ? '' : null;
  }

  push(text: string): readonly AnswerDelta[] {
    for (const thought of this.#thinking.push(text)) this.#think(thought);
    return this.#told();
  }

  /** Nothing more comes: what waited is told. */
  end(): { readonly deltas: readonly AnswerDelta[]; readonly spoken: Spoken } {
    for (const thought of this.#thinking.end()) this.#think(thought);
    for (const part of this.#calls?.end() ?? []) this.#part(part);
    // White space behind a call is no text; where there is no call all of it is.
    if (this.#said.length === 0 && this.#blank !== null) this.#say(this.#blank);
    const reasoning = this.#reasoning === '' ? null : this.#reasoning;
    return { deltas: this.#told(), spoken: { reasoning, content: this.#content, tool_calls: this.#said } };
  }

  #told(): readonly AnswerDelta[] {
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }

  #think({ kind, text }: Thought): void {
    if (kind === 'reasoning') {
      this.#reasoning += text;
      this.#deltas.push({ kind, text });
    } else {
      for (const part of this.#calls?.push(text) ?? [text]) this.#part(part);
    }
  }

  #part(part: string | SaidCall): void {
    if (typeof part !== 'string') {
      this.#call(part);
    } else if (this.#blank === null) {
      this.#say(part);
    } else {
      this.#blank += part;
      if (this.#blank.trim() === '') return;
      this.#say(this.#blank);
      this.#blank = null;
    }
  }

  #say(text: string): void {
    if (text === '') return;
    this.#content += text;
    this.#deltas.push({ kind: 'text', text });
  }

  #call(call: SaidCall): void {
    const index = this.#said.length;
    this.#said.push(call);
    this.#blank = '';
    this.#deltas.push({ kind: 'call', index, name: call.name });
    if (call.arguments !== '') this.#deltas.push({ kind: 'arguments', index, text: call.arguments });
  }
}
