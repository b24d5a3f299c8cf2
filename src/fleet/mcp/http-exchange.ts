import { Agent, type Dispatcher } from 'undici';

/** Bytes of one answer; a screenshot has some megabytes. */
const answerLimit = 64 * 2 ** 20;

/**
 * Connections for MCP. No time-out is hidden in here but that of connecting (10 s): an operation's deadline is its
 * caller's. One agent may serve all environments of a process; whoever made it closes it.
 */
export function createMcpAgent(): Agent {
  return new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: answerLimit,
    connect: { timeout: 10_000 },
  });
}

export interface HttpRequest {
  readonly url: URL;
  readonly method: Dispatcher.HttpMethod;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly signal: AbortSignal | null;
}

/** As much of a `Response` as the SDK's transport reads: a text that is there already, or an event stream. */
export interface HttpAnswer {
  readonly ok: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  /** Of an event stream only. */
  readonly body: ReadableStream<Uint8Array> | null;
  text(): Promise<string>;
  json(): Promise<unknown>;
}

export function answerOf(
  status: number,
  content: { readonly text: string } | { readonly stream: ReadableStream<Uint8Array> },
  headers = new Headers(),
): HttpAnswer {
  const text = 'text' in content ? content.text : '';
  return {
    ok: status >= 200 && status < 300,
    status,
    statusText: '',
    headers,
    body: 'stream' in content ? content.stream : null,
    text: async () => text,
    json: async () => JSON.parse(text) as unknown,
  };
}

/**
 * One request on a connection of its own. A connection that is kept may have been closed by the server while nobody
 * looked; what was sent into it then fails like a call that was cut off, and would count as one that may have been
 * carried out. `onEnd` is told when an event stream is over, with words on how.
 */
export async function exchange(
  dispatcher: Dispatcher,
  { url, method, headers, body, signal }: HttpRequest,
  onEnd: (words: string) => void,
): Promise<HttpAnswer> {
  const response = await dispatcher.request({
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers,
    body,
    signal,
    reset: true,
  });
  const received = new Headers();
  for (const [name, value] of Object.entries(response.headers)) {
    if (value !== undefined) received.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  const streams = received.get('content-type')?.startsWith('text/event-stream') ?? false;
  if (!streams || response.statusCode !== 200) {
    return answerOf(response.statusCode, { text: await response.body.text() }, received);
  }
  const chunks = response.body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await chunks.next();
        if (next.done !== true) return controller.enqueue(next.value);
        controller.close();
        onEnd('the server closed the stream without an answer');
      } catch (error) {
        controller.error(error);
        onEnd(`the connection was lost: ${error instanceof Error ? error.message : String(error)}`);
      }
    },
    async cancel() {
      await chunks.return?.();
    },
  });
  return answerOf(response.statusCode, { stream }, received);
}
