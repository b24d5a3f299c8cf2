import type { ChatAnswer, ChatDelta } from '../../chat.ts';
import type { AnswerEncoder, DialectCall } from '../dialect.ts';
import { eventJson, sseData } from '../sse.ts';
import { envelope, finishReasons, streamedCompletion, usageOf } from './response.ts';

/** An answer as the chunks of OpenAI's stream while it comes. */
export class CompletionEncoder implements AnswerEncoder {
  readonly #call: DialectCall;
  /** The envelope up to the choices: every chunk of a completion has the same. */
  readonly #head: string;
  #begun = false;

  constructor(call: DialectCall) {
    this.#call = call;
    this.#head = `data: ${eventJson(envelope(call, 'chat.completion.chunk')).slice(0, -1)},"choices":[`;
  }

  delta(delta: ChatDelta): string {
    switch (delta.kind) {
      case 'begin':
        this.#begun = true;
        return this.#chunk('{"role":"assistant","content":""}');
      case 'reasoning':
        return this.#chunk(`{"reasoning":${eventJson(delta.text)}}`);
      case 'text':
        return this.#chunk(`{"content":${eventJson(delta.text)}}`);
      case 'call': {
        const { index, id, name } = delta;
        const call = { index, id, type: 'function', function: { name, arguments: '' } };
        return this.#chunk(`{"tool_calls":[${eventJson(call)}]}`);
      }
      case 'arguments':
        return this.#chunk(
          `{"tool_calls":[{"index":${delta.index},"function":{"arguments":${eventJson(delta.text)}}}]}`,
        );
    }
  }

  end(answer: ChatAnswer): string {
    if (!this.#begun) return streamedCompletion(this.#call, answer);
    const usage = `${this.#head}],"usage":${eventJson(usageOf(answer))}}\n\n`;
    return (
      this.#chunk('{}', finishReasons[answer.stop]) +
      (this.#call.includeUsage === true ? usage : '') +
      sseData('[DONE]')
    );
  }

  #chunk(delta: string, finish: string | null = null): string {
    const end = `,"logprobs":null,"finish_reason":${finish === null ? 'null' : `"${finish}"`}}]}\n\n`;
    return `${this.#head}{"index":0,"delta":${delta}${end}`;
  }
}
