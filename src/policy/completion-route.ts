import type { RouteWire } from './chat-route.ts';
import { completionBody, completionChunks } from './completion-json.ts';
import { parseCompletionRequest } from './completion-request.ts';

/** `POST /v1/completions`: a prompt of ids or text, answered with text that nobody parsed. */
export const completionWire: RouteWire = {
  read: parseCompletionRequest,
  whole: completionBody,
  chunks: completionChunks,
};
