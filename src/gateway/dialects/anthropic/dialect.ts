import type { Dialect } from '../dialect.ts';
import { sse } from '../sse.ts';
import { anthropicError, anthropicHttpError } from './errors.ts';
import { MessageEncoder } from './message-encoder.ts';
import { parseMessagesRequest } from './request.ts';
import { streamedMessage, unaryMessage } from './response.ts';

/** Anthropic Messages, as the CLI speaks it. */
export const anthropicDialect: Dialect = {
  parse: parseMessagesRequest,
  unary: unaryMessage,
  stream: streamedMessage,
  encoder: (call) => new MessageEncoder(call),
  error: anthropicError,
  httpError: anthropicHttpError,
  // Real events: the CLI's timers do not count comments (case 48). Nothing follows an error event (case 49).
  ping: sse({ type: 'ping' }),
  streamError: (error) => sse(anthropicError(error).body as { type: string }),
};
