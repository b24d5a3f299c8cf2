import { Pool, type Dispatcher } from 'undici';
import { EngineError } from '../engines/engine-error.ts';
import { wellFormedJson } from '../well-formed-json.ts';
import { WholeExchange, WholeReply, type ReplicaReply } from './whole-reply.ts';

/** An answer whose body is still on its way. */
export interface ReplicaStream {
  readonly status: number;
  readonly headers: ReplicaReply['headers'];
  /** Rejects as `request` does. Leaving the iteration early closes the connection. */
  readonly body: AsyncIterable<Buffer>;
  /** The body to its end. */
  whole(): Promise<WholeReply>;
}

const nobodyThere = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Throws what a broken exchange means. */
function fail(error: unknown, signal: AbortSignal): never {
  if (signal.aborted) throw signal.reason;
  const code = codeOf(error);
  const why = code || (error instanceof Error ? error.message : String(error));
  if (nobodyThere.has(code)) {
    throw new EngineError('unreachable', `the policy does not answer (${why})`, { cause: error });
  }
  throw new EngineError('busy', `the connection to the policy broke (${why})`, { cause: error });
}

async function* chunks(body: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    yield* body;
  } catch (error) {
    fail(error, signal);
  }
}

/** Bytes of one answer: many times that of a million prompt ids and the longest completion with its logprobs. */
const answerLimit = 128 * 2 ** 20;

/** A base URL without trailing slashes and without `/v1`. */
export function normalizeBaseUrl(url: string): URL {
  const parsed = new URL(url);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    throw new Error(`the policy's URL must begin with http:// or https://: ${url}`);
  }
  parsed.pathname = parsed.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return parsed;
}

/**
 * One server of the policy. No time-out is hidden in here: undici's own for headers and bodies (300 s each) are off,
 * because a call's deadline is the caller's signal. No body leaves here with half a surrogate pair (case 37), which no
 * tokenizer takes: wherever it came from (an agent's request, a tool's result inside this process, what was sampled) it
 * is U+FFFD in every call, so that a conversation that grows keeps its beginning.
 */
export class Replica {
  /** How the replica is named in records: its base URL, without credentials. */
  readonly name: string;
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, apiKey: string | undefined) {
    const base = normalizeBaseUrl(url);
    this.#prefix = base.pathname === '/' ? '' : base.pathname;
    this.name = `${base.origin}${this.#prefix}`;
    this.#headers = { 'content-type': 'application/json', accept: 'application/json' };
    if (apiKey) this.#headers['authorization'] = `Bearer ${apiKey}`;
    this.#pool = new Pool(base.origin, {
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize: answerLimit,
      connect: { timeout: 10_000 },
    });
  }

  /** One request; an answer of any status resolves. Rejects with EngineError or with the signal's reason. */
  request(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    signal: AbortSignal,
  ): Promise<WholeReply> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const exchange = new WholeExchange(signal, answerLimit);
    this.#pool.dispatch(this.#asked(method, path, body), exchange);
    // No frame waits here that would hold the body.
    return exchange.answered.catch((error: unknown) => fail(error, signal));
  }

  /**
   * One request whose answer `read` takes as it comes. Rejects as `request` does, or with what `read` rejects with.
   */
  async stream<T>(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    signal: AbortSignal,
    read: (reply: ReplicaStream) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    const response = await this.#pool
      .request({ ...this.#asked(method, path, body), signal })
      .catch((error: unknown) => fail(error, signal));
    const { statusCode: status, headers } = response;
    return read({
      status,
      headers,
      body: chunks(response.body, signal),
      whole: async () => {
        try {
          return new WholeReply(status, headers, Buffer.from(await response.body.arrayBuffer()));
        } catch (error) {
          return fail(error, signal);
        }
      },
    });
  }

  #asked(method: 'GET' | 'POST', path: string, body: string | null): Dispatcher.DispatchOptions {
    return {
      method,
      path: `${this.#prefix}${path}`,
      headers: this.#headers,
      // Bytes: undici would keep the text beside them for as long as the policy takes.
      body: body === null ? null : Buffer.from(wellFormedJson(body)),
    };
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
