import type {
  ChatMessage,
  LogprobsMode,
  Sampling,
  ToolDefinition,
  UntrainableReason,
  VersionSpan,
} from '../../contracts/index.ts';
import type { ToolChoice } from '../chat.ts';
import type { Replica } from '../policy/replica.ts';

/** One call in the middle form, with everything the engine is to be told. */
export interface EngineRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolDefinition[];
  readonly tool_choice?: ToolChoice;
  readonly parallel_tool_calls?: boolean;
  readonly stop?: readonly string[];
  readonly sampling: Sampling;
  /** Already derived for this call; null = the engine's own. */
  readonly seed: number | null;
  readonly max_tokens: number;
  /** The id under which the engine knows a tool call. */
  readonly upstreamId: (id: string) => string;
  /**
   * The prompt's ids, where they are known: an engine that continues from ids is given these instead of `messages`, of
   * which only `tools` then matters, for the parsing of calls. Others ignore them.
   */
  readonly prompt_token_ids?: Int32Array;
  /**
   * Told, before the call rejects, what had come of an answer that was cut: its tokens were sampled, and are never
   * trainable. Only an engine that streams knows of any.
   */
  readonly onPartial?: (partial: EngineAnswer) => void;
  /**
   * Told of the answer's parts as they come: an agent that streams is given them at once. Only an engine that streams
   * calls it. Once it was called the answer cannot be sampled anew without the agent seeing both.
   */
  readonly onDelta?: (delta: AnswerDelta) => void;
}

/** A piece of an answer on its way, in the order of the sampled text. `index` counts the answer's tool calls from 0. */
export type AnswerDelta =
  /** The first: what the engine said of the prompt; 0 where it says so only at the end. */
  | { readonly kind: 'begin'; readonly prompt_tokens: number; readonly cached_tokens: number }
  | { readonly kind: 'reasoning' | 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly index: number; readonly name: string }
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string };

/** What an answer says. */
export type Spoken = Pick<EngineAnswer, 'content' | 'reasoning' | 'tool_calls'>;

/** What the engine sampled. Ids and logprobs are its own; what it did not give is null, what is no number is NaN. */
export interface EngineAnswer {
  readonly content: string | null;
  readonly reasoning: string | null;
  readonly tool_calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly finish_reason: string | null;
  /** The stop string that matched, where one did. */
  readonly stop_sequence: string | null;
  readonly refusal: boolean;
  readonly prompt_token_ids: Int32Array | null;
  readonly token_ids: Int32Array | null;
  readonly logprobs: Float32Array | null;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly cached_tokens: number;
  } | null;
  /** Which versions of the weights sampled which of `token_ids`, where the engine says it. Default: it does not. */
  readonly versions?: readonly VersionSpan[];
  /** What the arrays themselves cannot show, such as two sources of ids that disagree. */
  readonly reasons: readonly UntrainableReason[];
}

/**
 * One kind of inference server. Methods reject with EngineError, or with the signal's reason. An engine keeps no
 * state of episodes: a call may go to any replica.
 */
export interface Engine {
  readonly name: string;
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  /** Whether `complete` honours `prompt_token_ids`. */
  readonly continuesFromIds: boolean;
  complete(replica: Replica, request: EngineRequest, signal: AbortSignal): Promise<EngineAnswer>;
  /** Ids of the rendered prompt, up to where an answer begins; null where the engine refuses it or has no way to say. */
  render(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<Int32Array | null>;
  /**
   * What sampled ids (the end of the turn not among them) say, as an answer to ids is read; null where the engine has no way
   * to write ids as text.
   */
  reread(
    replica: Replica,
    ids: Int32Array,
    tools: EngineRequest['tools'],
    signal: AbortSignal,
  ): Promise<Spoken | null>;
  /** Tokens of the rendered prompt; null where the engine has no way to say. */
  countTokens(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<number | null>;
}
