import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { hash } from 'node:crypto';
import type { Logger } from '../../observe/index.ts';
import { ChatError } from '../chat.ts';
import { promptUpperBound } from '../calls/context-window.ts';
import { anthropicDialect } from '../dialects/anthropic/dialect.ts';
import type { Dialect, DialectCall } from '../dialects/dialect.ts';
import { openaiDialect } from '../dialects/openai/dialect.ts';
import { answerClient, sendError, sendJson } from './answering.ts';
import type { StreamTiming } from './answer-stream.ts';
import { BodyError, parseJsonBody, readBody } from './body.ts';
import { modelList } from './models.ts';
import type { OpenSession } from './open-session.ts';
import { nameExchange } from './request-id.ts';
import type { RequestLoad } from './session-load.ts';
import { replayKey, type SharedCall } from './shared-call.ts';

export interface ListenerOptions {
  readonly sessions: ReadonlyMap<string, OpenSession>;
  readonly model: string;
  readonly timing: StreamTiming;
  readonly log: Logger;
}

/** Sessions are looked up by a hash of the bearer, so that the time of a look-up says nothing about any bearer. */
export function bearerHash(bearer: string): string {
  return hash('sha256', bearer, 'base64');
}

function bearerOf(request: IncomingMessage): string {
  const authorization = request.headers.authorization ?? '';
  if (/^bearer /i.test(authorization)) return authorization.slice(7).trim();
  const key = request.headers['x-api-key'];
  return typeof key === 'string' ? key : '';
}

interface Exchange {
  readonly session: OpenSession;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly load: RequestLoad;
  readonly requestId: string;
}

type Serve = (exchange: Exchange) => Promise<void>;

/** The gateway's one request handler. Over an attempt's own socket only that attempt's bearer is taken. */
export class Listener {
  readonly #options: ListenerOptions;
  /** Names of the exchanges that began calls: a retry has another name and the same call. */
  readonly #begunBy = new WeakMap<SharedCall, string>();
  readonly #routes: ReadonlyMap<string, { readonly dialect: Dialect; readonly serve: Serve }>;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const call =
      (dialect: Dialect, path: string): Serve =>
      (exchange) =>
        this.#call(dialect, path, exchange);
    this.#routes = new Map(
      Object.entries({
        'POST /v1/messages': { dialect: anthropicDialect, serve: call(anthropicDialect, '/v1/messages') },
        'POST /v1/messages/count_tokens': {
          dialect: anthropicDialect,
          serve: (exchange) => this.#countTokens(exchange),
        },
        'POST /v1/chat/completions': {
          dialect: openaiDialect,
          serve: call(openaiDialect, '/v1/chat/completions'),
        },
        'GET /v1/models': {
          dialect: anthropicDialect,
          serve: async ({ response }) => sendJson(response, 200, modelList(this.#options.model)),
        },
      }),
    );
  }

  /** `only`: the session whose socket this is; null for the port that all share. */
  handler(only: OpenSession | null): RequestListener {
    return (request, response) => {
      const requestId = nameExchange(response);
      void this.#handle(only, request, response, requestId).catch((error: unknown) => {
        this.#options.log.warn({ err: error, request_id: requestId }, 'a request failed in the gateway');
        sendError(response, anthropicDialect.httpError(500, 'the gateway failed'));
      });
    };
  }

  async #handle(
    only: OpenSession | null,
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
  ): Promise<void> {
    response.on('error', () => {}); // A client that left; `close` tells the rest.
    const path = (request.url ?? '/').split('?', 1)[0]!;
    const method = request.method ?? 'GET';
    if (path === '/' && (method === 'GET' || method === 'HEAD')) {
      sendJson(response, 200, { status: 'ok' });
      return;
    }
    const dialect = path.startsWith('/v1/chat/') ? openaiDialect : anthropicDialect;
    const route = this.#routes.get(`${method} ${path}`);
    const session = this.#options.sessions.get(bearerHash(bearerOf(request)));
    const refuse = (status: number, message: string): void => {
      session?.calls.refused(requestId, `HTTP ${status}: ${message}`);
      request.resume(); // What the client still sends is thrown away, so that it can read the refusal.
      sendError(response, dialect.httpError(status, message));
    };
    if (route === undefined) return refuse(404, `${method} ${path} is not served here`);
    if (session === undefined || (only !== null && session !== only)) {
      return refuse(401, 'unknown or missing credential');
    }
    const load = session.load.enter(response);
    if (load === null) return refuse(429, 'too many requests at once');
    try {
      await route.serve({ session, request, response, load, requestId });
    } catch (error) {
      if (error instanceof BodyError) refuse(error.status, error.message);
      // What JSON.parse takes, JSON.stringify may not: it works on the stack.
      else if (error instanceof RangeError) refuse(400, 'the body is nested too deeply');
      else if (error instanceof ChatError) {
        session.calls.refused(requestId, error.message);
        sendError(response, dialect.error(error));
      } else if (!request.socket.destroyed) throw error;
    }
  }

  async #call(dialect: Dialect, path: string, exchange: Exchange): Promise<void> {
    const { shared, call } = this.#take(dialect, exchange, path, await readCall(dialect, path, exchange));
    await answerClient(exchange.response, dialect, call, shared, this.#options.timing);
  }

  /** In a frame of its own: the request's messages are the session's from here on, and nothing else holds them. */
  #take(
    dialect: Dialect,
    { session, request, requestId }: Exchange,
    path: string,
    { key, call }: KeyedCall,
  ): { readonly shared: SharedCall; readonly call: DialectCall } {
    const client = session.clients.identify(request.headers, path, call.request);
    const streams = call.stream && dialect.encoder(call) !== null;
    const shared = session.shared.take(key, client.isCli, (signal, onDelta) =>
      session.calls.chat(call.request, {
        ...client,
        signal,
        request_id: requestId,
        ...(streams ? { onDelta } : {}),
      }),
    );
    const first = this.#begunBy.get(shared);
    if (first === undefined) this.#begunBy.set(shared, requestId);
    else session.calls.joined(requestId, first);
    return { shared, call: { ...call, request: { messages: [] } } };
  }

  async #countTokens(exchange: Exchange): Promise<void> {
    const { session, request, response } = exchange;
    const { call } = await readCall(anthropicDialect, '', exchange);
    const agent = request.headers['x-claude-code-agent-id'];
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const counted = await session.load.count(() =>
      session.calls.countTokens(call.request, typeof agent === 'string' ? agent : 'main', gone.signal),
    );
    // Without a tokenizer, or asked too often: text has about four bytes a token.
    const estimate = (): number => Math.ceil(promptUpperBound(call.request.messages, call.request.tools) / 4);
    sendJson(response, 200, { input_tokens: counted ?? estimate() });
  }
}

interface KeyedCall {
  readonly key: string;
  readonly call: DialectCall;
}

/** Reads and parses in a frame of its own: the raw body is garbage before the policy is asked. */
async function readCall(dialect: Dialect, path: string, { request, load }: Exchange): Promise<KeyedCall> {
  const body = await readBody(request, load);
  const agent = request.headers['x-claude-code-agent-id'];
  return {
    key: replayKey(typeof agent === 'string' ? agent : '', path, body),
    call: dialect.parse(parseJsonBody(body)),
  };
}
