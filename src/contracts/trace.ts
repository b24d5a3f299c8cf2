import type { CallFate } from './call.ts';
import type { ChatMessage } from './chat.ts';
import type { Role } from './sequence.ts';

/** One call of an episode for people and for message-level training: deltas only, so that it grows linearly. */
export interface TraceCall {
  readonly call: number;
  readonly agent_id: string;
  readonly role: Role;
  readonly fate: CallFate;
  readonly new_messages: readonly ChatMessage[];
  readonly answer: ChatMessage | null;
  readonly finish_reason: string | null;
  readonly version_start: number | null;
  readonly version_end: number | null;
  readonly started_at: number;
  readonly ended_at: number;
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
}

export interface Trace {
  readonly calls: readonly TraceCall[];
}
