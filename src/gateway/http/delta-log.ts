import type { ChatDelta } from '../chat.ts';

/** A place in the log: parts that were read, and how much of the text of the one after them. */
export interface LogPlace {
  readonly parts: number;
  readonly length: number;
}

type Spoken = Extract<ChatDelta, { readonly text: string }>;
/** Text that grows while it is the last. */
type Growing = { -readonly [K in keyof Spoken]: Spoken[K] };

function isSpoken(delta: ChatDelta | undefined): delta is Spoken {
  return delta !== undefined && 'text' in delta;
}

/**
 * What has come of an answer, for clients that attach late or read slowly: it grows with the answer's text, not with its
 * tokens.
 */
export class DeltaLog {
  readonly #parts: (ChatDelta | Growing)[] = [];
  readonly #listeners = new Set<(delta: ChatDelta) => void>();
  /** The last part, where it is text. */
  #last: Growing | null = null;

  readonly push = (delta: ChatDelta): void => {
    // Arguments are always of the call that was begun last.
    if (isSpoken(delta) && this.#last?.kind === delta.kind) this.#last.text += delta.text;
    else this.#parts.push((this.#last = isSpoken(delta) ? { ...delta } : null) ?? delta);
    for (const listener of this.#listeners) listener(delta);
  };

  /** Behind all that came. */
  get end(): LogPlace {
    return this.#last === null
      ? { parts: this.#parts.length, length: 0 }
      : { parts: this.#parts.length - 1, length: this.#last.text.length };
  }

  /** What came behind a place, neighbouring pieces of text joined. */
  since({ parts, length }: LogPlace): readonly ChatDelta[] {
    const [first, ...rest] = this.#parts.slice(parts) as ChatDelta[];
    if (first === undefined) return [];
    if (!isSpoken(first) || length === 0) return [first, ...rest];
    return first.text.length === length ? rest : [{ ...first, text: first.text.slice(length) }, ...rest];
  }

  /** Tells of every delta from now on, until the result is disposed. */
  listen(listener: (delta: ChatDelta) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}

/** Where a log begins. */
export const logStart: LogPlace = { parts: 0, length: 0 };
