import type { ChatMessage } from '../../contracts/index.ts';

const separator = '\n\n';

function append(message: Exclude<ChatMessage, { role: 'assistant' }>, text: string): ChatMessage {
  const { content } = message;
  if (typeof content !== 'string') return { role: 'user', content: [...content, { type: 'text', text }] };
  return { ...message, content: `${content}${separator}${text}` };
}

function prepend(message: Extract<ChatMessage, { role: 'user' }>, text: string): ChatMessage {
  return {
    role: 'user',
    content:
      typeof message.content === 'string'
        ? `${text}${separator}${message.content}`
        : [{ type: 'text', text }, ...message.content],
  };
}

/** Whether a system message stands anywhere but in front. */
export function hasInlineSystem(messages: readonly ChatMessage[]): boolean {
  return messages.some((message, at) => message.role === 'system' && at > 0);
}

/**
 * For templates that take a system message only in front: later ones are folded into the user or tool message before
 * them. After an assistant's turn there is none, so the text goes to the message after it, or is a user message
 * where that is an assistant's or none. Never hoisted: that would change the prompt's beginning in the middle of an episode.
 */
export function foldInlineSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  if (!hasInlineSystem(messages)) return messages;
  const folded: ChatMessage[] = [];
  let waiting: string | null = null;
  for (const [at, message] of messages.entries()) {
    const before = folded.at(-1);
    if (message.role === 'system' && at > 0) {
      if (before !== undefined && before.role !== 'assistant') {
        folded[folded.length - 1] = append(before, message.content);
      } else {
        waiting = waiting === null ? message.content : `${waiting}${separator}${message.content}`;
      }
    } else if (waiting !== null) {
      if (message.role === 'user') folded.push(prepend(message, waiting));
      else if (message.role === 'tool') folded.push(append(message, waiting));
      else folded.push({ role: 'user', content: waiting }, message);
      waiting = null;
    } else {
      folded.push(message);
    }
  }
  if (waiting !== null) folded.push({ role: 'user', content: waiting });
  return folded;
}
