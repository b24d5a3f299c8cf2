import type { IncomingMessage, ServerResponse } from 'node:http';
import { streamChunks, toJson, unaryBody } from './answer-json.ts';
import type { Answer } from './answer.ts';
import { parseChatRequest, type ChatRequestBody } from './chat-request.ts';
import type { Completions, SampledRequest } from './completions.ts';
import { faultOf, type Fault, type FaultQueue } from './faults.ts';
import { departure, pause, sendJson, writeChunk } from './http-exchange.ts';
import { Refusal, unknownModel } from './refusal.ts';

export interface ChatRouteOptions {
  readonly completions: Completions;
  readonly faults: FaultQueue;
  readonly model: string;
  readonly latencyMs: number;
  readonly tokenMs: number;
}

/** How a route reads its requests and words its answers. */
export interface RouteWire {
  /** Throws `Refusal`. */
  readonly read: (body: unknown) => SampledRequest;
  readonly whole: (answer: Answer, request: ChatRequestBody) => unknown;
  readonly chunks: (answer: Answer, request: ChatRequestBody) => Iterable<unknown>;
}

/** `POST /v1/chat/completions`. */
export const chatWire: RouteWire = {
  read: (body) => ({ request: parseChatRequest(body) }),
  whole: unaryBody,
  chunks: streamChunks,
};

/** Answers a call of a route that samples. Refusals are thrown and answered by the server. */
export async function answerSampled(
  wire: RouteWire,
  body: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  options: ChatRouteOptions,
): Promise<void> {
  const left = departure(response);
  const faults = options.faults.take();
  await failFirst(response, faults, left);
  if (left.aborted) return;
  const call = wire.read(body);
  const { request: chat } = call;
  if (chat.model && chat.model !== options.model) throw unknownModel(chat.model);
  const slow = faultOf(faults, 'slow')?.ms ?? 0;
  if (!(await pause(options.latencyMs + slow, left))) return;
  const requestId = request.headers['x-request-id'];
  const answer = options.completions.sample(
    call,
    faults,
    typeof requestId === 'string' ? requestId : undefined,
  );
  const { tokenMs } = options;
  if (chat.stream) {
    const tokens = answer.usage.completion_tokens;
    await streamAnswer(response, wire.chunks(answer, chat), tokens, faults, tokenMs, left);
  } else if (await pause(tokenMs * answer.usage.completion_tokens, left)) {
    await sendWhole(response, toJson(wire.whole(answer, chat)), faults, left);
  }
}

/** The faults that leave no answer. Resolves when there is none of them, or when the client gave up. */
export async function failFirst(
  response: ServerResponse,
  faults: readonly Fault[],
  left: AbortSignal,
): Promise<void> {
  const status = faultOf(faults, 'status');
  if (status !== undefined) {
    const refusal = new Refusal(
      status.status,
      status.message ?? 'A fault was asked for.',
      'InternalServerError',
    );
    const headers: Record<string, string> =
      status.retry_after === undefined ? {} : { 'retry-after': String(status.retry_after) };
    sendJson(response, status.status, JSON.stringify(refusal.body()), headers);
    await gone(left);
  }
  const hang = faultOf(faults, 'hang');
  if (hang === undefined || left.aborted) return;
  if (hang.headers) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
  }
  await gone(left);
}

function gone(left: AbortSignal): Promise<void> {
  if (left.aborted) return Promise.resolve();
  return new Promise((resolve) => left.addEventListener('abort', () => resolve(), { once: true }));
}

/** Sends a whole answer, or as much of it as the faults leave. */
export async function sendWhole(
  response: ServerResponse,
  text: string,
  faults: readonly Fault[],
  left: AbortSignal,
): Promise<void> {
  if (faultOf(faults, 'stream_error') !== undefined) {
    throw new Refusal(500, 'Internal server error', 'InternalServerError');
  }
  if (faultOf(faults, 'die') !== undefined) {
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.write(text.slice(0, Math.ceil(text.length / 2)), () => response.destroy());
    await gone(left);
    return;
  }
  sendJson(response, 200, text);
}

async function streamAnswer(
  response: ServerResponse,
  chunks: Iterable<unknown>,
  tokens: number,
  faults: readonly Fault[],
  tokenMs: number,
  left: AbortSignal,
): Promise<void> {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
  });
  const die = faultOf(faults, 'die') !== undefined;
  const error = faultOf(faults, 'stream_error') !== undefined;
  const half = Math.ceil(tokens / 2);
  let sent = 0;
  for (const chunk of chunks) {
    if (sent === half && die) {
      // Not before what was written is on its way: a blank line says nothing in an event stream.
      response.write('\n', () => response.destroy());
      await gone(left);
      return;
    }
    if (sent === half && error) {
      // The engine ends a failed stream with [DONE] too: it is no proof of success.
      const body = new Refusal(500, 'Internal server error', 'InternalServerError').body();
      response.end(`data: ${JSON.stringify(body)}\n\ndata: [DONE]\n\n`);
      return;
    }
    if (sent > 0 && !(await pause(tokenMs, left))) return;
    if (!(await writeChunk(response, `data: ${toJson(chunk)}\n\n`))) return;
    sent += 1;
  }
  response.end('data: [DONE]\n\n');
}
