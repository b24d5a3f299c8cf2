import type { ServerResponse } from 'node:http';
import { randomId } from '../random-id.ts';

/**
 * Names an exchange, in the answer's headers too: `request-id` is what Anthropic's clients read, `x-request-id` what
 * OpenAI's do. The client's own header is not asked: an agent could give two calls one name.
 */
export function nameExchange(response: ServerResponse): string {
  const id = `req_${randomId()}`;
  response.setHeader('request-id', id);
  response.setHeader('x-request-id', id);
  return id;
}
