import type { CertificateNote, UntrainableReason } from './certificate.ts';
import type { ChatMessage } from './chat.ts';
import type { Sampling } from './sampling.ts';
import type { Role } from './sequence.ts';
import type { VersionSpan } from './version-span.ts';

/** Whether token logprobs are those of the distribution that was sampled from, or of the raw one before it. */
export type LogprobsMode = 'processed' | 'raw' | 'unknown';

/**
 * What became of a call. `delivered`: the agent has the whole answer. `undelivered`: the policy answered, the
 * agent left before it had it. `discarded`: superseded by a retry of the same request. `aborted`: cut short by
 * us or by the engine. `failed`: the policy gave no answer.
 */
export type CallFate = 'delivered' | 'undelivered' | 'discarded' | 'aborted' | 'failed';

/**
 * One model call, as recorded by the gateway. Immutable once its fate is known. Ids and logprobs are the
 * engine's own; what was missing or not a number is kept as it came (NaN), so that the certificate can say so.
 */
export interface CallRecord {
  /** Order of arrival within the attempt, from 0. */
  readonly index: number;
  /** `main`, or the id in the CLI's agent header. */
  readonly agent_id: string;
  readonly role: Role;
  readonly fate: CallFate;
  /** Length P; null when the engine gave none. */
  readonly prompt_token_ids: Int32Array | null;
  /** Length C; null when the engine gave none. */
  readonly token_ids: Int32Array | null;
  /** Length C when the engine is sound; float32 of the engine's values; NaN where it gave none. */
  readonly logprobs: Float32Array | null;
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
  /** The engine's word: stop, length, tool_calls, abort, ... */
  readonly finish_reason: string | null;
  readonly sampling: Sampling;
  readonly max_tokens: number;
  readonly logprobs_mode: LogprobsMode;
  readonly version_start: number | null;
  readonly version_end: number | null;
  /** Which versions sampled which tokens, as offsets in `token_ids`; only where the engine says more than the two above. */
  readonly version_spans?: readonly VersionSpan[];
  readonly replica: string;
  /** What the gateway itself saw of the answer beyond what the arrays show. */
  readonly reasons: readonly UntrainableReason[];
  readonly notes: readonly CertificateNote[];
  /** Messages of this request that no earlier call of the same agent had, after restoring recorded turns. */
  readonly new_messages: readonly ChatMessage[];
  readonly answer: ChatMessage | null;
  /** Epoch milliseconds. */
  readonly started_at: number;
  readonly ended_at: number;
  /** Milliseconds of the call spent waiting for a paused or unreachable policy. */
  readonly held_ms: number;
}
