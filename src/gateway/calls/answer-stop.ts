import type { ChatStop } from '../chat.ts';
import type { EngineAnswer } from '../engines/engine.ts';

/**
 * Why the policy stopped. A turn without a tool call never says `tool_calls`: the CLI would drop its text and rewrite
 * the history (facts: claude-code 3b). One with a call says so even when the engine says `stop` (a named tool choice).
 * An unknown word is an end.
 */
export function answerStop(answer: EngineAnswer): ChatStop {
  if (answer.refusal) return 'refusal';
  if (answer.finish_reason === 'length') return 'length';
  if (answer.tool_calls.length > 0) return 'tool_calls';
  return answer.stop_sequence === null ? 'end' : 'stop_sequence';
}
