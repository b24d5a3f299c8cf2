import type { ChatAnswer, ChatDelta } from '../../chat.ts';
import type { AnswerEncoder, DialectCall } from '../dialect.ts';
import { eventJson, sse } from '../sse.ts';
import { messageEnd, messageStart, signature, streamedMessage } from './response.ts';

type Kind = 'thinking' | 'text' | 'tool_use';

/** Events up to the text of a delta, which is all that differs from one to the next. */
const openings: Readonly<Record<Kind, string>> = {
  thinking: '{"type":"thinking_delta","thinking":',
  text: '{"type":"text_delta","text":',
  tool_use: '{"type":"input_json_delta","partial_json":',
};

/**
 * An answer as the events of Anthropic's stream while it comes (cases 39 to 46): one block is open at a time, indices are
 * dense, thinking is signed before it ends, arguments are deltas, `{}` where there are none.
 */
export class MessageEncoder implements AnswerEncoder {
  readonly #call: DialectCall;
  #begun = false;
  #open: Kind | null = null;
  #index = -1;
  /** What the open block of thinking says, for its signature. */
  #thinking = '';
  /** White space that the open call's arguments begin with; null once there is more: blank arguments are none. */
  #blank: string | null = null;
  /** The open block's delta event up to its text. */
  #opening = '';

  constructor(call: DialectCall) {
    this.#call = call;
  }

  delta(delta: ChatDelta): string {
    switch (delta.kind) {
      case 'begin':
        this.#begun = true;
        return messageStart(this.#call, delta);
      case 'reasoning': {
        const opened = this.#block('thinking', { type: 'thinking', thinking: '', signature: '' });
        this.#thinking += delta.text;
        return opened + this.#event(delta.text);
      }
      case 'text':
        return this.#block('text', { type: 'text', text: '' }) + this.#event(delta.text);
      case 'call':
        return this.#start('tool_use', { type: 'tool_use', id: delta.id, name: delta.name, input: {} });
      case 'arguments':
        return this.#arguments(delta.text);
    }
  }

  end(answer: ChatAnswer): string {
    if (!this.#begun) return streamedMessage(this.#call, answer);
    return this.#stop() + messageEnd(answer);
  }

  #block(kind: Kind, block: unknown): string {
    return this.#open === kind ? '' : this.#start(kind, block);
  }

  #start(kind: Kind, content_block: unknown): string {
    const closed = this.#stop();
    this.#open = kind;
    this.#index++;
    this.#thinking = '';
    this.#blank = '';
    this.#opening = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":${openings[kind]}`;
    return closed + sse({ type: 'content_block_start', index: this.#index, content_block });
  }

  #arguments(text: string): string {
    if (this.#blank === null) return this.#event(text);
    const given = this.#blank + text;
    this.#blank = given.trim() === '' ? given : null;
    return this.#blank === null ? this.#event(given) : '';
  }

  #event(text: string): string {
    return `${this.#opening}${eventJson(text)}}}\n\n`;
  }

  #stop(): string {
    const open = this.#open;
    if (open === null) return '';
    this.#open = null;
    const index = this.#index;
    const stop = sse({ type: 'content_block_stop', index });
    if (open === 'tool_use' && this.#blank !== null) return this.#event('{}') + stop;
    if (open !== 'thinking') return stop;
    const delta = { type: 'signature_delta', signature: signature(this.#thinking) };
    return sse({ type: 'content_block_delta', index, delta }) + stop;
  }
}
