import type {
  AssistantMessage,
  CallFate,
  CallRecord,
  CertificateNote,
  ChatMessage,
  LogprobsMode,
  Sampling,
  UntrainableReason,
} from '../../contracts/index.ts';
import type { ChatCaller } from '../chat.ts';
import type { EngineAnswer } from '../engines/engine.ts';
import type { PromptForm } from '../recorder/trace-line.ts';
import type { CallClock } from './call-clock.ts';
import { versionsOf } from './call-versions.ts';

/** A try that failed and was made again. */
export interface Retry {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly replica: string;
  readonly error: string;
}

/** Retries that are kept: the latest say most of a long outage. */
const retriesKept = 20;

/** Hears of a call what changes after it was made. */
export interface CallWatcher {
  /** The policy is done with it. */
  ended(call: RecordedCall): void;
  /** It was delivered, or discarded. */
  fated(call: RecordedCall): void;
}

/** Who makes a call, as far as its record says it. */
type RecordedCaller = Pick<ChatCaller, 'agent_id' | 'role' | 'foreign' | 'request_id'>;

/** A call while the episode runs: what its record is made of, filled in as it becomes known. */
export class RecordedCall {
  readonly index: number;
  readonly caller: RecordedCaller;
  readonly fresh: readonly ChatMessage[];
  readonly clock: CallClock;
  readonly startedAt = Date.now();
  readonly reasons = new Set<UntrainableReason>();
  readonly notes = new Set<CertificateNote>();
  /** null while the policy works on it. */
  fate: CallFate | null = null;
  sampled: EngineAnswer | null = null;
  answer: AssistantMessage | null = null;
  endedAt: number | null = null;
  maxTokens = 0;
  versionStart: number | null = null;
  versionEnd: number | null = null;
  replica = '';
  /** Failures that were tried again, for people. */
  readonly retries: Retry[] = [];
  /** How its prompt was sent; null before it was. */
  promptAs: PromptForm | null = null;
  /** Why it has no answer, for people. */
  error: string | null = null;
  readonly #watcher: CallWatcher;
  #heldMs: number | null = null;
  #clientLeft = false;
  #setAside = false;

  constructor(
    index: number,
    caller: RecordedCaller,
    fresh: readonly ChatMessage[],
    clock: CallClock,
    watcher: CallWatcher,
  ) {
    this.#watcher = watcher;
    this.index = index;
    const { agent_id, role, request_id } = caller;
    this.caller = { agent_id, role, ...(request_id === undefined ? {} : { request_id }) };
    this.fresh = fresh;
    this.clock = clock;
    if (caller.foreign === true) {
      this.caller = { ...this.caller, foreign: true };
      this.notes.add('foreign_client');
    }
  }

  /** The policy is done with it; its fate may still change from undelivered to delivered, or to discarded. */
  end(fate: CallFate): void {
    this.fate = fate;
    this.#heldMs = this.clock.heldMs;
    this.endedAt = Date.now();
    this.#watcher.ended(this);
  }

  /** What it is called in the log: an agent's error is found by the name of its request. */
  get names(): { readonly call: number; readonly request_id?: string } {
    const { request_id } = this.caller;
    return { call: this.index, ...(request_id === undefined ? {} : { request_id }) };
  }

  get lastError(): string | null {
    return this.retries.at(-1)?.error ?? null;
  }

  /** It is tried again after a failure. */
  retried(error: Error): void {
    this.retries.push({ at: Date.now(), replica: this.replica, error: error.message });
    if (this.retries.length > retriesKept) this.retries.shift();
  }

  /** Whether the agent has the whole answer; a replay may still bring what a first delivery did not. */
  delivered(whole: boolean): void {
    if (this.fate !== 'undelivered') return;
    if (whole) {
      this.fate = 'delivered';
      this.#watcher.fated(this);
    } else {
      this.#clientLeft = true;
    }
  }

  superseded(): void {
    if (this.fate !== 'delivered' && this.fate !== 'undelivered') return;
    this.fate = 'discarded';
    this.#watcher.fated(this);
  }

  /** A record of its own for the same call, sampled again because the engine cut its answer short. */
  continuation(index: number): RecordedCall {
    this.#setAside = true;
    return new RecordedCall(index, this.caller, [], this.clock, this.#watcher);
  }

  /** Whether what was sampled stands in no sequence. While an answer is on its way that is not known. */
  get isLost(): boolean {
    return (
      this.fate === 'aborted' ||
      this.fate === 'discarded' ||
      (this.fate === 'undelivered' && this.#clientLeft)
    );
  }

  /** What was counted or what was listed, whichever is more: a budget must not hang on the engine's word alone. */
  get completionTokens(): number {
    return Math.max(this.sampled?.usage?.completion_tokens ?? 0, this.sampled?.token_ids?.length ?? 0);
  }

  /** What it took of the episode's budget: nothing where the engine cut it short, which is no doing of the agent's. */
  get spentTokens(): number {
    return this.#setAside ? 0 : this.completionTokens;
  }

  get promptTokens(): number {
    return this.sampled?.usage?.prompt_tokens ?? this.sampled?.prompt_token_ids?.length ?? 0;
  }

  record(sampling: Sampling, logprobsMode: LogprobsMode): CallRecord {
    const { sampled, fate } = this;
    const reasons = new Set([...(sampled?.reasons ?? []), ...this.reasons]);
    if (fate === 'aborted' || fate === 'undelivered') reasons.add(fate);
    return Object.freeze({
      index: this.index,
      agent_id: this.caller.agent_id,
      role: this.caller.role,
      fate: fate ?? 'aborted',
      prompt_token_ids: sampled?.prompt_token_ids ?? null,
      token_ids: sampled?.token_ids ?? null,
      logprobs: sampled?.logprobs ?? null,
      usage:
        sampled === null || sampled.usage === null
          ? null
          : {
              prompt_tokens: sampled.usage.prompt_tokens,
              completion_tokens: sampled.usage.completion_tokens,
            },
      finish_reason: sampled?.finish_reason ?? null,
      sampling,
      max_tokens: this.maxTokens,
      logprobs_mode: logprobsMode,
      ...versionsOf(this.versionStart, this.versionEnd, sampled?.versions ?? []),
      replica: this.replica,
      reasons: [...reasons],
      notes: [...this.notes],
      new_messages: this.fresh,
      answer: this.answer,
      started_at: this.startedAt,
      ended_at: this.endedAt ?? Date.now(),
      held_ms: this.#heldMs ?? this.clock.heldMs,
    });
  }
}
