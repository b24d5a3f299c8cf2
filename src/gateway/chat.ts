import type { AssistantMessage, ChatMessage, Role, ToolDefinition } from '../contracts/index.ts';

export type ToolChoice =
  'auto' | 'none' | 'required' | { readonly type: 'function'; readonly function: { readonly name: string } };

/** A request in the middle form: what a dialect makes of the agent's body, and what an in-process agent sends. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolDefinition[];
  readonly tool_choice?: ToolChoice;
  readonly parallel_tool_calls?: boolean;
  readonly stop?: readonly string[];
  /** The agent's own wish; the call's limit is the smallest of it and the episode's. */
  readonly max_tokens?: number;
}

/**
 * A piece of an answer on its way, in the order of the sampled text; together they say the answer's message. `index`
 * counts its tool calls from 0, and `id` is the recorded one.
 */
export type ChatDelta =
  /** Comes first; 0 where the policy says so only at the end. */
  | { readonly kind: 'begin'; readonly prompt_tokens: number; readonly cached_tokens: number }
  | { readonly kind: 'reasoning' | 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly index: number; readonly id: string; readonly name: string }
  /** Of the call that was begun last. */
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string };

export interface ChatCaller {
  /** `main`, or the agent's own id for a subagent. */
  readonly agent_id: string;
  readonly role: Role;
  /** Set when the client is not the CLI: recorded as auxiliary with note `foreign_client`. */
  readonly foreign?: boolean;
  /** The gateway's own name of the exchange that the call came with; absent for a call from inside this process. */
  readonly request_id?: string;
  /** Aborts when the client left. */
  readonly signal: AbortSignal;
  /**
   * Told of the answer's parts as they come, where the policy streams. Once it was told any, a call that the policy does
   * not bring to its end fails and is not tried again.
   */
  readonly onDelta?: (delta: ChatDelta) => void;
}

/** Why the policy stopped, in the middle form. */
export type ChatStop = 'end' | 'tool_calls' | 'length' | 'stop_sequence' | 'refusal';

export interface ChatAnswer {
  /** Index of the recorded call. */
  readonly call: number;
  /** Tool ids are unique in the episode. */
  readonly message: AssistantMessage;
  readonly stop: ChatStop;
  readonly stop_sequence: string | null;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    /** Of the prompt's tokens, those the engine had in its prefix cache; absent when it did not say. */
    readonly cached_tokens?: number;
  };
  /** The engine's own arrays, for an agent that asks for them. */
  readonly tokens: {
    readonly prompt_token_ids: Int32Array | null;
    readonly token_ids: Int32Array | null;
    readonly logprobs: Float32Array | null;
  };
  /**
   * The dialect says how delivery ended: true = the agent has the whole answer. First word counts, but that a false
   * may still become true, when the answer is replayed to the agent's retry.
   */
  delivered(whole: boolean): void;
  /** The same agent asked for the same again although it had this answer: only the new one counts. */
  superseded(): void;
}

/** Refusals of a call that the dialect must put into the agent's own words. */
export type ChatErrorCode =
  | 'bad_request'
  | 'context_overflow'
  | 'turn_budget'
  | 'token_budget'
  | 'time_budget'
  | 'policy_unavailable'
  | 'policy_error'
  | 'closed';

export class ChatError extends Error {
  readonly code: ChatErrorCode;
  /** HTTP status of the policy, where there was one. */
  readonly status: number | undefined;
  /** For `context_overflow`: the numbers the CLI's parser wants. */
  readonly tokens: { readonly prompt: number; readonly limit: number } | undefined;

  constructor(
    code: ChatErrorCode,
    message: string,
    detail: { status?: number; tokens?: { prompt: number; limit: number }; cause?: unknown } = {},
  ) {
    super(message, { cause: detail.cause });
    this.name = 'ChatError';
    this.code = code;
    this.status = detail.status;
    this.tokens = detail.tokens;
  }
}
