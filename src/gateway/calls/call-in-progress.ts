import type { ChatRequest } from '../chat.ts';
import type { CountedPrefix } from './conversation.ts';
import type { RecordedCall } from './recorded-call.ts';
import type { ToldAnswer } from './told-answer.ts';

/** A call on its way; its record changes where the engine cut an answer short. */
export class CallInProgress {
  readonly request: ChatRequest;
  readonly counted: CountedPrefix;
  readonly signal: AbortSignal;
  /** Set where the agent is told the answer while it comes. */
  told: ToldAnswer | null = null;
  record: RecordedCall;

  constructor(request: ChatRequest, counted: CountedPrefix, record: RecordedCall, signal: AbortSignal) {
    this.request = request;
    this.counted = counted;
    this.record = record;
    this.signal = signal;
  }
}
