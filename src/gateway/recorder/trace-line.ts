import type {
  AssistantMessage,
  CallFate,
  CallRecord,
  ChatMessage,
  Failure,
  Role,
} from '../../contracts/index.ts';
import type { SessionStats } from '../session.ts';

/** `ids`: a prompt that goes on from a recorded answer. */
export type PromptForm = 'ids' | 'text';

/** The form of these lines, in the first one. */
export const traceSchema = 'rollpool.trace/1';

/** A try of a call that failed and was made again. Times are epoch milliseconds. */
export interface TracedRetry {
  readonly at: number;
  readonly replica: string;
  readonly error: string;
}

/** The first line: which attempt this is. */
export interface EpisodeLine {
  readonly type: 'episode';
  readonly schema: typeof traceSchema;
  readonly run_id: string | null;
  readonly episode_id: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly pid: number;
  readonly model: string;
  readonly at: number;
}

/** A call has come in. Without its `call` line it was in flight when the worker ended, or still is. */
export interface BeginLine {
  readonly type: 'begin';
  readonly call: number;
  readonly agent_id: string;
  readonly role: Role;
  readonly at: number;
  /** The `request-id` that its client was told; absent for a call from inside the worker. */
  readonly request_id?: string;
  /** Names of the tools it may call; absent where they are those of the call before. */
  readonly tools?: readonly string[];
}

/** The policy is done with a call. Ids and logprobs are counts: their values are in the result's payload. */
export interface CallLine {
  readonly type: 'call';
  readonly call: number;
  readonly agent_id: string;
  readonly role: Role;
  /** `undelivered` until a `fate` line says otherwise. */
  readonly fate: CallFate;
  readonly started_at: number;
  readonly ended_at: number;
  readonly held_ms: number;
  readonly replica: string;
  readonly version_start: number | null;
  readonly version_end: number | null;
  readonly max_tokens: number;
  /** How its prompt was sent: as recorded ids, or as text; absent where it never was. */
  readonly prompt_as?: PromptForm;
  readonly finish_reason: string | null;
  readonly usage: CallRecord['usage'];
  readonly prompt_token_ids: number | null;
  readonly token_ids: number | null;
  readonly logprobs: number | null;
  readonly reasons: CallRecord['reasons'];
  readonly notes: CallRecord['notes'];
  /** The latest of them. */
  readonly retries: readonly TracedRetry[];
  /** Why it has no answer. */
  readonly error: string | null;
  /** Messages that no earlier call of the same agent had. */
  readonly new_messages: readonly ChatMessage[];
  readonly answer: AssistantMessage | ChatMessage | null;
}

/** A client asked again for a call that it had not got: another name for the same call. */
export interface JoinedLine {
  readonly type: 'joined';
  readonly request_id: string;
  /** The `request_id` in the call's `begin`. */
  readonly begun_by: string;
  readonly at: number;
}

/** A request that the gateway itself refused: no call was made for it. */
export interface RefusedLine {
  readonly type: 'refused';
  readonly request_id: string;
  readonly message: string;
  readonly at: number;
}

/** What became of an answer. */
export interface FateLine {
  readonly type: 'fate';
  readonly call: number;
  readonly fate: CallFate;
  readonly at: number;
}

/** The attempt's calls are over. */
export interface EndLine {
  readonly type: 'end';
  readonly at: number;
  readonly stats: Omit<SessionStats, 'failure'>;
  readonly failure: Failure | null;
}

/** The episode's share of the disk is used up: further calls are not recorded here. */
export interface CutLine {
  readonly type: 'cut';
  readonly at: number;
}

export type TraceLine =
  EpisodeLine | BeginLine | JoinedLine | RefusedLine | CallLine | FateLine | EndLine | CutLine;

/** What a call's record does not say of it. */
export interface CallDetail {
  readonly retries: readonly TracedRetry[];
  readonly error: string | null;
  /** null: it was never sent. */
  readonly promptAs: PromptForm | null;
}

/** The line of a call whose policy is done. */
export function callLine(record: CallRecord, detail: CallDetail): CallLine {
  return {
    type: 'call',
    call: record.index,
    agent_id: record.agent_id,
    role: record.role,
    fate: record.fate,
    started_at: record.started_at,
    ended_at: record.ended_at,
    held_ms: Math.round(record.held_ms),
    replica: record.replica,
    version_start: record.version_start,
    version_end: record.version_end,
    max_tokens: record.max_tokens,
    ...(detail.promptAs === null ? {} : { prompt_as: detail.promptAs }),
    finish_reason: record.finish_reason,
    usage: record.usage,
    prompt_token_ids: record.prompt_token_ids?.length ?? null,
    token_ids: record.token_ids?.length ?? null,
    logprobs: record.logprobs?.length ?? null,
    // Whether it was delivered is not known yet: the fate tells.
    reasons: record.reasons.filter((reason) => reason !== 'undelivered'),
    notes: record.notes,
    retries: detail.retries,
    error: detail.error,
    new_messages: record.new_messages,
    answer: record.answer,
  };
}
