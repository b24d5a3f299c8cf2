import type { ServerResponse } from 'node:http';
import { ChatError } from '../chat.ts';
import type { Dialect, DialectCall, DialectError } from '../dialects/dialect.ts';
import { AnswerStream, type StreamTiming } from './answer-stream.ts';
import type { SharedCall } from './shared-call.ts';

/** One JSON answer. Refusals say that trying again cannot help: everything that could help was tried here. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const payload = Buffer.from(JSON.stringify(body));
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': payload.length,
    ...(status >= 400 ? { 'x-should-retry': 'false' } : {}),
  });
  response.end(payload);
}

export function sendError(response: ServerResponse, { status, body }: DialectError): void {
  sendJson(response, status, body);
}

function asChatError(error: unknown): ChatError {
  return error instanceof ChatError
    ? error
    : new ChatError('policy_error', 'the call ended without an answer', { cause: error });
}

/**
 * Brings a call's answer to its client. It counts as delivered only when all of it was handed to the client's socket
 * and the socket was still good then.
 */
export async function answerClient(
  response: ServerResponse,
  dialect: Dialect,
  call: DialectCall,
  shared: SharedCall,
  timing: StreamTiming,
): Promise<void> {
  let gone = false;
  let answered = false;
  let flushed = false;
  // Node says `finish` also of a response whose socket was destroyed under it.
  response.once('finish', () => (flushed = !response.req.socket.destroyed));
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      gone = true;
      if (answered && flushed) shared.delivered();
      else shared.left();
      resolve();
    });
  });
  using stream = call.stream ? new AnswerStream(response, dialect, call, shared.log, timing) : null;
  try {
    const answer = await Promise.race([shared.promise, closed]);
    if (gone || answer === undefined) return;
    if (stream === null) sendJson(response, 200, dialect.unary(call, answer));
    else stream.end(answer);
    // Not before: an answer that could not be written is none.
    answered = true;
  } catch (error) {
    if (gone) return;
    const refusal = asChatError(error);
    if (stream?.begun === true) stream.fail(refusal);
    else sendError(response, dialect.error(refusal));
  }
}
