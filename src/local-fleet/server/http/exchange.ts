import type { IncomingMessage, ServerResponse } from 'node:http';
import type { z } from 'zod';
import { pythonJson } from './json.ts';
import { BadGateway, ConnectionCut, Refusal, unprocessable } from './refusal.ts';

/** Largest request body, in bytes: a verifier's bundle travels as base64 in one. */
const bodyLimit = 32 * 2 ** 20;

/** One request and its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  /** Without the query and without a slash at the end. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** `http://host:port` under which the client reached us. */
  readonly origin: string;
}

const hostHeader = /^[a-z0-9.\-[\]:]+$/i;

/** `url` is where the server listens, for clients that do not say under which name they found it. */
export function openExchange(request: IncomingMessage, response: ServerResponse, url: string): Exchange {
  const target = request.url ?? '/';
  const mark = target.indexOf('?');
  const path = mark === -1 ? target : target.slice(0, mark);
  const host = request.headers.host;
  return {
    request,
    response,
    method: request.method ?? 'GET',
    path: path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path,
    query: new URLSearchParams(mark === -1 ? '' : target.slice(mark + 1)),
    origin: host !== undefined && hostHeader.test(host) ? `http://${host}` : url,
  };
}

/** The body as JSON; undefined when there is none. */
export async function readJson({ request }: Exchange): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  // The request stays open when it is left early: its connection still has to carry the refusal.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > bodyLimit) throw new Refusal(413, 'Request Entity Too Large', { connection: 'close' });
    parts.push(part);
  }
  if (size === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(parts, size).toString('utf8'));
  } catch {
    throw unprocessable('body', [{ path: [], message: 'JSON decode error', code: 'json_invalid' }]);
  }
}

/** The body as this schema reads it. */
export async function readBody<T extends z.ZodType>(exchange: Exchange, schema: T): Promise<z.output<T>> {
  const parsed = schema.safeParse(await readJson(exchange));
  if (!parsed.success) throw unprocessable('body', parsed.error.issues);
  return parsed.data;
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.destroyed) return;
  const text = pythonJson(body);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

const badGatewayPage =
  '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n';

/** Answers what a handler threw; false when it was none of the known ways to refuse. */
export function answerError(error: unknown, response: ServerResponse): boolean {
  if (error instanceof ConnectionCut || (error instanceof Error && response.headersSent)) {
    response.destroy();
    return error instanceof ConnectionCut;
  }
  if (error instanceof Refusal) {
    sendJson(response, error.status, { detail: error.detail }, error.headers);
    return true;
  }
  if (error instanceof BadGateway) {
    response.writeHead(502, {
      'content-type': 'text/html',
      'content-length': Buffer.byteLength(badGatewayPage),
    });
    response.end(badGatewayPage);
    return true;
  }
  sendJson(response, 500, { detail: 'Internal Server Error' });
  return false;
}
