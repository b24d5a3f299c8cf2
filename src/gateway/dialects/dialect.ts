import type { ChatAnswer, ChatDelta, ChatError, ChatRequest } from '../chat.ts';

/** An agent's request as its dialect understood it. */
export interface DialectCall {
  readonly request: ChatRequest;
  readonly stream: boolean;
  /** The client's own word for the model, echoed to it. */
  readonly model: string;
  /** Whether a stream ends with a usage chunk (OpenAI). */
  readonly includeUsage?: boolean;
  /** What of the engine's arrays the client asked for (OpenAI). */
  readonly wants?: { readonly logprobs: boolean; readonly ids: boolean };
}

export interface DialectError {
  readonly status: number;
  readonly body: unknown;
}

/** One client's stream of an answer that is on its way: what was told decides how the rest is. */
export interface AnswerEncoder {
  /** The events of one more part. */
  delta(delta: ChatDelta): string;
  /** The rest of the events: of the whole answer where no part was told. */
  end(answer: ChatAnswer): string;
}

/** One API that agents speak. Pure: bodies in, bodies out. */
export interface Dialect {
  /** Throws ChatError `bad_request` that names the field. */
  parse(body: unknown): DialectCall;
  unary(call: DialectCall, answer: ChatAnswer): unknown;
  /** A whole unary answer told as server-sent events. */
  stream(call: DialectCall, answer: ChatAnswer): string;
  /** For an answer that is told while it comes; null where the client asked for something that only the whole one has. */
  encoder(call: DialectCall): AnswerEncoder | null;
  error(error: ChatError): DialectError;
  /** For refusals that never became a call: 401, 404, 413. */
  httpError(status: number, message: string): DialectError;
  /** The same error inside a stream whose headers are out. */
  streamError(error: ChatError): string;
  /** Sent while a committed stream waits. */
  readonly ping: string;
}
