import type { ChatMessage } from '../../contracts/index.ts';

/** Whether two messages of the middle form say the same. */
export function sameMessage(a: ChatMessage, b: ChatMessage): boolean {
  if (a === b) return true;
  if (a.role !== b.role) return false;
  if (a.role === 'tool' && b.role === 'tool') {
    return a.tool_call_id === b.tool_call_id && a.content === b.content;
  }
  if (a.role !== 'assistant' && typeof a.content === 'string') return a.content === b.content;
  return JSON.stringify(a) === JSON.stringify(b);
}
