import type { ChatMessage } from '../../contracts/index.ts';
import { ChatError } from '../chat.ts';

/** What stands for the result of a call that the agent gave none for: a template must not see it missing (case 3). */
const noResult = 'Error: this call has no result.';

function refusal(what: string): ChatError {
  return new ChatError('bad_request', `messages: ${what}`);
}

/** The ids of a turn's calls. Two of one id cannot be told apart by their results. */
function callIds(message: Extract<ChatMessage, { role: 'assistant' }>): Set<string> {
  const ids = new Set<string>();
  for (const { id } of message.tool_calls ?? []) {
    if (ids.has(id)) throw refusal(`two tool calls of one turn have the id ${JSON.stringify(id)}`);
    ids.add(id);
  }
  return ids;
}

/**
 * Every tool call has exactly one result behind it, and nothing stands between them. A missing result is made up, always
 * the same; a result without a call, or a second one, is refused: templates would render either wrongly and in silence.
 */
export function pairToolResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const paired: ChatMessage[] = [];
  let open = new Set<string>();
  /** System messages that came before the results of the turn in front of them. */
  let waiting: ChatMessage[] = [];
  const close = (): void => {
    for (const id of open) paired.push({ role: 'tool', tool_call_id: id, content: noResult });
    paired.push(...waiting);
    open = new Set();
    waiting = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      if (!open.delete(message.tool_call_id)) {
        const id = JSON.stringify(message.tool_call_id);
        throw refusal(`the tool result ${id} has no tool call right before it, or is its second`);
      }
      paired.push(message);
      if (open.size === 0) close();
    } else if (message.role === 'system' && open.size > 0) {
      waiting.push(message);
    } else {
      close();
      paired.push(message);
      if (message.role === 'assistant') open = callIds(message);
    }
  }
  close();
  return paired;
}
