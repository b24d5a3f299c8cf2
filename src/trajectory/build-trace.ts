import type { CallRecord, Trace } from '../contracts/index.ts';
import { completionTokens, promptTokens } from './usage.ts';

/** Every call of an episode for people, whatever became of it: deltas only, so that it grows linearly. */
export function buildTrace(calls: readonly CallRecord[]): Trace {
  return {
    calls: calls
      .toSorted((a, b) => a.index - b.index)
      .map((call) => ({
        call: call.index,
        agent_id: call.agent_id,
        role: call.role,
        fate: call.fate,
        new_messages: call.new_messages,
        answer: call.answer,
        finish_reason: call.finish_reason,
        version_start: call.version_start,
        version_end: call.version_end,
        started_at: call.started_at,
        ended_at: call.ended_at,
        prompt_tokens: promptTokens(call),
        completion_tokens: completionTokens(call),
      })),
  };
}
