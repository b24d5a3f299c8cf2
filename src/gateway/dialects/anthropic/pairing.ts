import type { ChatMessage } from '../../../contracts/index.ts';
import { ChatError } from '../../chat.ts';

/** What stands for the result of a call that the agent gave none for: a template must not see it missing (case 3). */
const noResult = 'Error: this call has no result.';

/**
 * Every tool call has exactly one result behind it. A missing one is made up deterministically; a result without a
 * call, or a second one, is refused: templates would render either wrongly and in silence.
 */
export function pairToolResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const paired: ChatMessage[] = [];
  let open = new Set<string>();
  const closeOpen = (): void => {
    for (const id of open) paired.push({ role: 'tool', tool_call_id: id, content: noResult });
    open = new Set();
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      if (!open.delete(message.tool_call_id)) {
        throw new ChatError(
          'bad_request',
          `messages: tool_result ${JSON.stringify(message.tool_call_id)} has no tool_use right before it, or a second result`,
        );
      }
    } else if (message.role !== 'system' || open.size === 0) {
      closeOpen();
    }
    paired.push(message);
    if (message.role === 'assistant') open = new Set((message.tool_calls ?? []).map(({ id }) => id));
  }
  closeOpen();
  return paired;
}
