import type { ChatMessage } from '../../contracts/index.ts';

/** Tokens a template may write around messages, as far as anybody writes. */
const around = 4_096;

/** More tokens than any tokenizer makes of messages in text: a byte is one at most, and templates may escape it. */
export function mostTokensOf(messages: readonly ChatMessage[]): number {
  return messages.reduce(
    (sum, { content }) =>
      sum + around + 4 * (typeof content === 'string' ? Buffer.byteLength(content) : Infinity),
    0,
  );
}
