import type { ChatError } from '../../chat.ts';
import type { Dialect, DialectError } from '../dialect.ts';
import { sseData } from '../sse.ts';
import { CompletionEncoder } from './completion-encoder.ts';
import { parseChatRequest } from './request.ts';
import { chatCompletion, streamedCompletion } from './response.ts';

function openaiError(status: number, message: string, code: string | null): DialectError {
  const type =
    status === 402 ? 'insufficient_quota' : status < 500 ? 'invalid_request_error' : 'server_error';
  return { status, body: { error: { message, type, param: null, code } } };
}

function refusal(error: ChatError): DialectError {
  switch (error.code) {
    case 'context_overflow': {
      const { prompt, limit } = error.tokens ?? {};
      const numbers =
        limit === undefined
          ? ''
          : ` This model's maximum context length is ${limit} tokens, your messages have ${prompt}.`;
      return openaiError(
        400,
        `The messages do not fit into the context.${numbers}`,
        'context_length_exceeded',
      );
    }
    // OpenAI's own status for a used-up quota is 429, which clients send again.
    case 'turn_budget':
    case 'token_budget':
    case 'time_budget':
      return openaiError(402, error.message, error.code);
    case 'closed':
      return openaiError(403, error.message, error.code);
    case 'policy_unavailable':
      return openaiError(error.status ?? 503, error.message, error.code);
    case 'policy_error':
      return openaiError(error.status ?? 500, error.message, error.code);
    case 'bad_request':
      return openaiError(400, error.message, error.code);
  }
}

/** OpenAI chat completions, for agents that speak it. */
export const openaiDialect: Dialect = {
  parse: parseChatRequest,
  unary: chatCompletion,
  stream: streamedCompletion,
  // Ids and logprobs stand at the end of a stream, whichever way it is told.
  encoder: (call) =>
    call.wants?.logprobs === true || call.wants?.ids === true ? null : new CompletionEncoder(call),
  error: refusal,
  httpError: (status, message) => openaiError(status, message, null),
  ping: ': ping\n\n',
  streamError: (error) => sseData(refusal(error).body) + sseData('[DONE]'),
};
