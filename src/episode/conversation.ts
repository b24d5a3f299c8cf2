import type { CallRecord, ChatMessage } from '../contracts/index.ts';

/** What the main agent was told and said, in order, as the calls that it had whole answers to tell it. */
export function conversationOf(calls: readonly CallRecord[]): ChatMessage[] {
  return calls
    .filter((call) => call.role === 'main' && call.fate === 'delivered')
    .toSorted((a, b) => a.index - b.index)
    .flatMap((call) => [...call.new_messages, ...(call.answer === null ? [] : [call.answer])]);
}
