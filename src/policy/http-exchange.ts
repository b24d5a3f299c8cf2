import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { malformed, Refusal } from './refusal.ts';

/** Largest request body, in bytes. */
const bodyLimit = 64 * 2 ** 20;

export async function readJson(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > bodyLimit) throw new Refusal(413, 'Request Entity Too Large', 'Request Entity Too Large');
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8'));
  } catch {
    throw malformed("[{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'}]");
  }
}

export function sendJson(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

/** Writes to a stream and waits while the client reads slower than we write. False: the client left. */
export async function writeChunk(response: ServerResponse, text: string): Promise<boolean> {
  if (response.destroyed) return false;
  if (!response.write(text)) {
    await Promise.race([once(response, 'drain'), once(response, 'close')]).catch(() => undefined);
  }
  return !response.destroyed;
}

/** Waits; false when the client left before the time was up. */
export async function pause(ms: number, left: AbortSignal): Promise<boolean> {
  if (left.aborted) return false;
  if (ms <= 0) return true;
  return delay(ms, true, { signal: left }).catch(() => false);
}

/** Aborts when the client has left or the server closes. */
export function departure(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => controller.abort());
  return controller.signal;
}
