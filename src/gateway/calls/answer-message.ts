import { createHash } from 'node:crypto';
import type { AssistantMessage } from '../../contracts/index.ts';
import type { EngineAnswer } from '../engines/engine.ts';

/** Unique in the episode, as the CLI needs it (facts: claude-code 3c), whatever ids the engine gives. */
export function toolId(nonce: string, call: number, at: number): string {
  const digest = createHash('sha256').update(JSON.stringify([nonce, call, at]));
  return `toolu_${digest.digest('hex').slice(0, 24)}`;
}

/** What was sampled as a message of the middle form, argument strings as they were sampled. */
export function answerMessage(sampled: EngineAnswer, nonce: string, call: number): AssistantMessage {
  const { content, reasoning, tool_calls: calls } = sampled;
  return {
    role: 'assistant',
    content,
    ...(reasoning === null ? {} : { reasoning }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ name, arguments: given }, at) => ({
            id: toolId(nonce, call, at),
            type: 'function' as const,
            function: { name, arguments: given },
          })),
        }),
  };
}
