import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import type { Dispatcher } from 'undici';
import { answerOf, exchange, type HttpAnswer } from './http-exchange.ts';
import { answerLost } from './mcp-failure.ts';

/** Tries to pick up an event stream that was cut off and can be resumed; the waits between them are short. */
const resumeTries = 2;

/** A request that has no answer yet. */
interface Waiting {
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
  readonly #dispatcher: Dispatcher;
  readonly #waiting = new Map<string | number, Waiting>();
  /** By the ids of the events that came. */
  readonly #resumable = new Map<string, Waiting>();

  constructor(url: URL, headers: Readonly<Record<string, string>>, dispatcher: Dispatcher) {
    super(url, {
      fetch: async (input, init) => (await this.#fetch(new URL(input), init ?? {})) as unknown as Response,
      requestInit: { headers },
      reconnectionOptions: {
        initialReconnectionDelay: 250,
        maxReconnectionDelay: 2_000,
        reconnectionDelayGrowFactor: 2,
        maxRetries: resumeTries,
      },
    });
    this.#dispatcher = dispatcher;
    // The protocol calls what it finds here before its own handler.
    this.onmessage = (message) => {
      if ('method' in message || message.id === undefined) return;
      const waiting = this.#waiting.get(message.id);
      if (waiting === undefined) return;
      waiting.answered = true;
      this.#forget(waiting);
    };
  }

  override async send(
    message: JSONRPCMessage | JSONRPCMessage[],
    options?: { resumptionToken?: string; onresumptiontoken?: (token: string) => void },
  ): Promise<void> {
    if (Array.isArray(message) || !('method' in message) || !('id' in message)) {
      return super.send(message, options);
    }
    const waiting: Waiting = {
      id: message.id,
      answered: false,
      resumable: false,
      streams: false,
      failedResumes: 0,
    };
    this.#waiting.set(waiting.id, waiting);
    const onresumptiontoken = (token: string): void => {
      waiting.resumable = true;
      this.#resumable.set(token, waiting);
    };
    try {
      await super.send(message, { ...options, onresumptiontoken });
    } catch (error) {
      this.#forget(waiting);
      throw error;
    }
    if (!waiting.streams) this.#lose(waiting, 'the server answered without an answer to the request');
  }

  #forget(waiting: Waiting): void {
    this.#waiting.delete(waiting.id);
    for (const [token, other] of this.#resumable) if (other === waiting) this.#resumable.delete(token);
  }

  /** Gives the protocol an error in place of the answer; nothing when there was one. */
  #lose(waiting: Waiting, message: string): void {
    if (waiting.answered) return;
    this.onmessage?.({
      jsonrpc: '2.0',
      id: waiting.id,
      error: { code: -32000, message, data: answerLost },
    });
  }

  async #fetch(url: URL, init: RequestInit): Promise<HttpAnswer> {
    const headers = Object.fromEntries(new Headers(init.headers));
    const body = typeof init.body === 'string' ? init.body : null;
    const resumes = init.method === 'GET';
    const waiting = resumes
      ? this.#resumable.get(headers['last-event-id'] ?? '')
      : this.#waiting.get((JSON.parse(body ?? '{}') as { id?: string | number }).id ?? '');
    // What a server answers that offers no stream, which ends the matter.
    if (resumes && waiting === undefined) return answerOf(405, { text: '' });
    const request = {
      url,
      method: resumes ? ('GET' as const) : ('POST' as const),
      headers,
      body,
      signal: init.signal ?? null,
    };
    // What was read last passes the SDK's parser before anything that is not a microtask runs.
    const onEnd = (words: string): void => {
      setImmediate(() => {
        if (waiting !== undefined && !waiting.resumable) this.#lose(waiting, words);
      });
    };
    try {
      const answer = await exchange(this.#dispatcher, request, onEnd);
      if (waiting !== undefined && answer.body !== null) waiting.streams = true;
      if (waiting !== undefined && resumes)
        this.#resumed(waiting, answer.ok ? null : `HTTP ${answer.status}`);
      return answer;
    } catch (error) {
      if (waiting !== undefined && resumes) this.#resumed(waiting, String(error));
      throw error;
    }
  }

  #resumed(waiting: Waiting, failure: string | null): void {
    waiting.failedResumes = failure === null ? 0 : waiting.failedResumes + 1;
    if (waiting.failedResumes >= resumeTries) {
      this.#lose(waiting, `the connection was lost and not found again: ${failure}`);
    }
  }
}
