import { ChatError, type ChatRequest } from '../chat.ts';
import type { ChatMessage } from '../../contracts/index.ts';
import type { CountedPrefix } from './conversation.ts';

/** Tokens a template may put around one message, as an upper bound. */
const perMessage = 16;

/** UTF-8 bytes of a text. A token of a byte-level vocabulary is at least one byte. */
const bytes = (text: string): number => Buffer.byteLength(text);

function messageBytes(message: ChatMessage): number {
  if (message.role === 'user' && typeof message.content !== 'string') {
    // An image's tokens are not known from its bytes: a call that has one is always counted by the engine.
    return message.content.reduce(
      (sum, part) => sum + (part.type === 'text' ? bytes(part.text) : Infinity),
      perMessage,
    );
  }
  if (message.role !== 'assistant') return perMessage + bytes(message.content as string);
  const calls = (message.tool_calls ?? []).reduce(
    (sum, { function: called }) => sum + perMessage + bytes(called.name) + bytes(called.arguments),
    0,
  );
  return perMessage + bytes(message.content ?? '') + bytes(message.reasoning ?? '') + calls;
}

/**
 * An upper bound of the prompt's tokens, without asking anybody: what the engine counted of its beginning, and the
 * bytes of the rest. Templates that rewrite history may exceed it by little; the engine then says so itself.
 */
export function promptUpperBound(
  messages: readonly ChatMessage[],
  tools: ChatRequest['tools'],
  counted: CountedPrefix = { length: 0, tokens: 0 },
): number {
  if (counted.length > 0) {
    return messages
      .slice(counted.length)
      .reduce((sum, message) => sum + messageBytes(message), counted.tokens + 64);
  }
  const toolBytes = tools === undefined || tools.length === 0 ? 0 : bytes(JSON.stringify(tools)) + 512;
  return messages.reduce((sum, message) => sum + messageBytes(message), 64 + toolBytes);
}

/** Tokens to sample so that prompt and completion stay inside the context; throws when the prompt leaves no room. */
export function fitIntoContext(maxTokens: number, promptTokens: number, contextTokens: number): number {
  if (promptTokens >= contextTokens) {
    throw new ChatError('context_overflow', `the prompt has ${promptTokens} tokens of ${contextTokens}`, {
      tokens: { prompt: promptTokens, limit: contextTokens },
    });
  }
  return Math.min(maxTokens, contextTokens - promptTokens);
}
