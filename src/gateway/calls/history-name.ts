import type { ChatCaller } from '../chat.ts';

/**
 * Names the history that a call belongs to. The CLI's side calls (a web search, say) have their agent's id and no part in
 * its conversation.
 */
export function historyName({ agent_id: id, role }: Pick<ChatCaller, 'agent_id' | 'role'>): string {
  return role === 'auxiliary' ? `${role} ${id}` : id;
}
