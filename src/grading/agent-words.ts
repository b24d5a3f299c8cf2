import type { ChatMessage } from '../contracts/index.ts';

/** JSON may write any character so. */
const escapes = /\\u([0-9a-fA-F]{4})/g;

function unescaped(text: string): string {
  return text.replaceAll(escapes, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

/**
 * Whether the agent wrote what fits a pattern: in its final answer, in what it said or in a call of a tool. A verifier
 * may print what an agent wrote; marks in such output may then be the agent's own, who must not grade itself.
 */
export function agentWrote(
  pattern: RegExp,
  agent: { readonly final_answer: string | null; readonly conversation: readonly ChatMessage[] },
): boolean {
  const wrote = (text: string): boolean => pattern.test(text) || pattern.test(unescaped(text));
  return (
    wrote(agent.final_answer ?? '') ||
    agent.conversation.some(
      (message) =>
        message.role === 'assistant' &&
        (wrote(message.content ?? '') ||
          (message.tool_calls ?? []).some(({ function: called }) => wrote(called.arguments))),
    )
  );
}
