import type { ChatDelta } from '../chat.ts';
import type { AnswerDelta } from '../engines/engine.ts';
import { toolId } from './answer-message.ts';

/** What an agent had begun to read was cut: it cannot be sampled anew, or the agent would see two answers as one. */
export class AnswerCut extends Error {
  constructor(cause?: unknown) {
    const why = cause instanceof Error ? `: ${cause.message}` : '';
    super(`the policy's answer broke off after its beginning was streamed${why}`, { cause });
    this.name = 'AnswerCut';
  }
}

/**
 * An answer that its agent is told while it comes. The beginning waits for the first part of the content: until then a
 * try may fail and be made again without anybody seeing it.
 */
export class ToldAnswer {
  readonly #onDelta: (delta: ChatDelta) => void;
  readonly #nonce: string;
  #begin: Extract<AnswerDelta, { kind: 'begin' }> | null = null;
  #begun = false;

  constructor(onDelta: (delta: ChatDelta) => void, nonce: string) {
    this.#onDelta = onDelta;
    this.#nonce = nonce;
  }

  /** Whether the agent was told anything. */
  get begun(): boolean {
    return this.#begun;
  }

  /** `call`: index of the call's record, which its tool ids derive from. */
  take(delta: AnswerDelta, call: number): void {
    if (delta.kind === 'begin') {
      this.#begin = delta;
      return;
    }
    if (!this.#begun) {
      this.#begun = true;
      this.#onDelta(this.#begin ?? { kind: 'begin', prompt_tokens: 0, cached_tokens: 0 });
    }
    this.#onDelta(delta.kind === 'call' ? { ...delta, id: toolId(this.#nonce, call, delta.index) } : delta);
  }
}
