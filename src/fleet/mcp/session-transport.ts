import { AsyncLocalStorage } from 'node:async_hooks';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { Agent, fetch as undiciFetch, Response as UndiciResponse, type Dispatcher } from 'undici';
import { answerLost } from './mcp-failure.ts';

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

/** Tries to pick up an event stream that was cut off and can be resumed; the waits between them are short. */
const resumeTries = 2;

/** One request on its way. */
interface Exchange {
  readonly id: string | number;
  answered: boolean;
  /** The stream has event ids: the SDK picks it up again where it was cut off. */
  resumable: boolean;
  /** The answer comes as an event stream; its end is seen in the stream. */
  streams: boolean;
  failedResumes: number;
}

/**
 * The SDK's transport, made to notice what it waits for in vain: a request whose event stream ended, or whose HTTP
 * answer held no answer to it, fails at once (marked `answerLost`) and not only by time. It opens no stream for messages
 * that the server sends by itself: nothing here reads them, and each would cost a socket for the whole episode.
 */
export class SessionTransport extends StreamableHTTPClientTransport {
  readonly #current: AsyncLocalStorage<Exchange | undefined>;
  readonly #open = new Map<string | number, Exchange>();

  constructor(url: URL, headers: Readonly<Record<string, string>>, dispatcher: Dispatcher) {
    const current = new AsyncLocalStorage<Exchange | undefined>();
    const observed: FetchLike = (input, init) => this.#fetch(input, init, dispatcher);
    super(url, {
      fetch: observed,
      requestInit: { headers },
      reconnectionOptions: {
        initialReconnectionDelay: 250,
        maxReconnectionDelay: 2_000,
        reconnectionDelayGrowFactor: 2,
        maxRetries: resumeTries,
      },
    });
    this.#current = current;
    // The protocol calls what it finds here before its own handler.
    this.onmessage = (message) => {
      if (!('id' in message) || 'method' in message || message.id === undefined) return;
      const exchange = this.#open.get(message.id);
      if (exchange !== undefined) exchange.answered = true;
      this.#open.delete(message.id);
    };
  }

  override async send(
    message: JSONRPCMessage | JSONRPCMessage[],
    options?: { resumptionToken?: string; onresumptiontoken?: (token: string) => void },
  ): Promise<void> {
    if (Array.isArray(message) || !('method' in message) || !('id' in message)) {
      return this.#current.run(undefined, () => super.send(message, options));
    }
    const exchange: Exchange = {
      id: message.id,
      answered: false,
      resumable: false,
      streams: false,
      failedResumes: 0,
    };
    this.#open.set(exchange.id, exchange);
    const onresumptiontoken = (): void => {
      exchange.resumable = true;
    };
    try {
      await this.#current.run(exchange, () => super.send(message, { ...options, onresumptiontoken }));
    } catch (error) {
      this.#open.delete(exchange.id);
      throw error;
    }
    if (!exchange.streams) this.#lose(exchange, 'the server answered without an answer to the request');
  }

  /** Gives the protocol an error in place of the answer; nothing when there was one. */
  #lose(exchange: Exchange, message: string): void {
    if (exchange.answered) return;
    this.onmessage?.({
      jsonrpc: '2.0',
      id: exchange.id,
      error: { code: -32000, message, data: answerLost },
    });
  }

  async #fetch(
    input: string | URL,
    init: RequestInit | undefined,
    dispatcher: Dispatcher,
  ): Promise<Response> {
    const exchange = this.#current.getStore();
    const resumes = init?.method === 'GET';
    if (resumes && (exchange === undefined || exchange.answered || !exchange.resumable)) {
      // What a server answers that offers no stream, which ends the matter.
      return new UndiciResponse(null, { status: 405 });
    }
    const response = await this.#answer(input, init, dispatcher).catch((error: unknown) => {
      if (resumes && exchange !== undefined) this.#failedResume(exchange, String(error));
      throw error;
    });
    if (resumes && exchange !== undefined) {
      if (response.ok) exchange.failedResumes = 0;
      else this.#failedResume(exchange, `HTTP ${response.status}`);
    }
    const streams = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
    if (!streams || exchange === undefined || !response.ok || response.body === null) return response;
    exchange.streams = true;
    return new UndiciResponse(this.#watched(response.body, exchange), {
      status: response.status,
      headers: Object.fromEntries(response.headers),
    });
  }

  async #answer(
    input: string | URL,
    init: RequestInit | undefined,
    dispatcher: Dispatcher,
  ): Promise<Response> {
    // The two fetches differ only in the names of their types.
    const options = { ...init, dispatcher } as unknown as Parameters<typeof undiciFetch>[1];
    return undiciFetch(input, options);
  }

  #failedResume(exchange: Exchange, words: string): void {
    exchange.failedResumes++;
    if (exchange.failedResumes >= resumeTries) {
      this.#lose(exchange, `the connection was lost and not found again: ${words}`);
    }
  }

  #watched(body: ReadableStream<Uint8Array>, exchange: Exchange): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const ended = (words: string): void => {
      // What was read last passes the SDK's parser before anything that is not a microtask runs.
      setImmediate(() => {
        if (!exchange.resumable) this.#lose(exchange, words);
      });
    };
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          controller.close();
          ended('the server closed the stream without an answer');
        } catch (error) {
          controller.error(error);
          ended(`the connection was lost: ${error instanceof Error ? error.message : String(error)}`);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    });
  }
}
