import type { ChatRequest } from '../chat.ts';
import type { CountedPrefix } from './conversation.ts';
import type { AnsweredCall } from './answered-calls.ts';
import type { RecordedCall } from './recorded-call.ts';
import type { ToldAnswer } from './told-answer.ts';

/** A call on its way; its record changes where the engine cut an answer short. */
export class CallInProgress {
  readonly request: ChatRequest;
  readonly counted: CountedPrefix;
  readonly signal: AbortSignal;
  /** The answer that its last messages follow; null where its prompt can only be text. */
  readonly parent: AnsweredCall | null;
  /** Its prompt's ids; null where it is to be text. Undefined until the engine was asked for what is new in it. */
  promptIds: Int32Array | null | undefined = undefined;
  /** Times that the engine failed to render what is new. */
  renderFailures = 0;
  /** Set where the agent is told the answer while it comes. */
  told: ToldAnswer | null = null;
  record: RecordedCall;

  constructor(
    request: ChatRequest,
    counted: CountedPrefix,
    parent: AnsweredCall | null,
    record: RecordedCall,
    signal: AbortSignal,
  ) {
    this.parent = parent;
    this.request = request;
    this.counted = counted;
    this.record = record;
    this.signal = signal;
  }
}
