import type { AnswerDelta } from './engine.ts';
import type { OpenCall, ToolCallDeltas } from './tool-call-deltas.ts';

/** Whether an argument string is one that ends itself: nothing can follow that belongs to it. */
function endsItself({ arguments: given }: OpenCall): boolean {
  const end = given.trimEnd().at(-1);
  if (end !== '}' && end !== ']') return false;
  try {
    return typeof JSON.parse(given) === 'object';
  } catch {
    return false;
  }
}

/**
 * Tells an answer's parts one after another, as an agent can read them: a call not before its name is known, and what
 * stands behind a call not before that call is whole, which the deltas of several calls in turn do not show. What is
 * told is always what the answer says in the end: arguments that come for a call which was told whole are none of it.
 */
export class AnswerTelling {
  readonly #tell: (delta: AnswerDelta) => void;
  readonly #calls: ToolCallDeltas;
  /** The call that is being told, as number of those that began. */
  #at = 0;
  /** Calls told to their end. */
  #told = 0;
  #open = false;
  /** Text behind calls. White space between two calls is no block of an answer and waits, too. */
  readonly #held: { readonly kind: 'reasoning' | 'text'; text: string }[] = [];

  constructor(tell: (delta: AnswerDelta) => void, calls: ToolCallDeltas) {
    this.#tell = tell;
    this.#calls = calls;
  }

  begin(prompt_tokens: number, cached_tokens: number): void {
    this.#tell({ kind: 'begin', prompt_tokens, cached_tokens });
  }

  say(kind: 'reasoning' | 'text', text: string): void {
    if (text === '') return;
    if (this.#calls.begun === 0) {
      this.#tell({ kind, text });
      return;
    }
    const last = this.#held.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.#held.push({ kind, text });
    const said = this.#held.some((each) => each.text.trim() !== '');
    if (said && this.#allWhole()) this.#release();
  }

  /** Tells what is new of the calls. */
  call(): void {
    while (this.#at < this.#calls.begun) {
      const call = this.#calls.at(this.#at)!;
      if (call.name === '') return;
      this.#tellCall(call);
      if (this.#at === this.#calls.begun - 1 || !endsItself(call)) return;
      this.#seal();
    }
  }

  /** Nothing more comes. */
  end(): void {
    for (; this.#at < this.#calls.begun; this.#seal()) {
      const call = this.#calls.at(this.#at)!;
      if (call.name !== '') this.#tellCall(call);
    }
    this.#release();
  }

  #tellCall({ name }: OpenCall): void {
    const index = this.#told;
    if (!this.#open) this.#tell({ kind: 'call', index, name });
    this.#open = true;
    const text = this.#calls.more(this.#at);
    if (text !== '') this.#tell({ kind: 'arguments', index, text });
  }

  #seal(): void {
    this.#calls.seal(this.#at);
    this.#at++;
    if (this.#open) this.#told++;
    this.#open = false;
  }

  /** Whether every call that began was told, and can have no more arguments. */
  #allWhole(): boolean {
    if (this.#at === this.#calls.begun) return true;
    if (!this.#open || this.#at < this.#calls.begun - 1 || !endsItself(this.#calls.at(this.#at)!))
      return false;
    this.#seal();
    return true;
  }

  #release(): void {
    for (const each of this.#held) this.#tell(each);
    this.#held.length = 0;
  }
}
