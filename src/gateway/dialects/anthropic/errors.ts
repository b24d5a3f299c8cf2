import type { ChatError } from '../../chat.ts';
import type { DialectError } from '../dialect.ts';

/** Anthropic's names for statuses (case 51). */
const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

export function anthropicHttpError(status: number, message: string): DialectError {
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { status, body: { type: 'error', error: { type, message } } };
}

/**
 * A refusal in the CLI's own words. An overflow must begin with "Prompt is too long" and carry both numbers (case 50).
 * Budgets are a 402, which ends the CLI at once with the message as its last word; what got a 400 is sent once more, and
 * before a 403 stands "Failed to authenticate" (measured with 2.1.332).
 */
export function anthropicError(error: ChatError): DialectError {
  switch (error.code) {
    case 'context_overflow': {
      const numbers =
        error.tokens === undefined ? '' : `: ${error.tokens.prompt} tokens > ${error.tokens.limit} maximum`;
      return anthropicHttpError(400, `Prompt is too long${numbers}`);
    }
    case 'bad_request':
      return anthropicHttpError(400, error.message);
    case 'turn_budget':
    case 'token_budget':
    case 'time_budget':
      return anthropicHttpError(402, error.message);
    case 'closed':
      return anthropicHttpError(403, error.message);
    case 'policy_unavailable':
      return anthropicHttpError(error.status ?? 503, error.message);
    case 'policy_error':
      return anthropicHttpError(error.status ?? 500, error.message);
  }
}
