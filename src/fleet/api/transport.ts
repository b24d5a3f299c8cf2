import { Agent, type Dispatcher } from 'undici';
import { FleetApiError } from './api-error.ts';
import { refusal } from './classify.ts';
import { deadlineAfter } from './deadline.ts';
import { parsePythonJson } from './python-json.ts';
import { isCertificateFault, wasNeverSent } from '../never-sent.ts';

/** Bytes of one answer: a long list of instances or a verifier's output, but not a stream without an end. */
const answerLimit = 64 * 2 ** 20;

/** Characters from which a key can be one: to take out a shorter one would only spoil words. */
const shortestSecret = 8;

export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as JSON; absent: no body. */
  readonly body?: unknown;
  readonly timeout_ms: number;
  readonly signal?: AbortSignal;
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function first(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null;
}

/**
 * Sends calls and reads JSON answers, over connections of its own that stay open between calls. Every failure is a
 * FleetApiError, except an abort, which rejects with the signal's reason. It repeats nothing.
 */
export class Transport implements AsyncDisposable {
  readonly #agent: Agent;
  /** Never to be seen in a message, even where a server writes it into its own. */
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
    // undici's own time-outs for headers and bodies (300 s each) are off: a call's deadline is its `timeout_ms`.
    this.#agent = new Agent({
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize: answerLimit,
      connect: { timeout: 10_000 },
    });
  }

  /** The JSON of a 2xx answer; null for an empty one. */
  async json(request: TransportRequest): Promise<unknown> {
    const call = `${request.method} ${request.url.replace(/\?.*/s, '')}`;
    const answer = await this.#send(request, call);
    if (answer.status < 200 || answer.status > 299) {
      throw refusal(call, { ...answer, text: this.#clean(answer.text) }, Date.now());
    }
    if (answer.text.trim() === '') return null;
    try {
      return parsePythonJson(answer.text);
    } catch (cause) {
      const begin = this.#clean(answer.text.slice(0, 200)).replace(/\s+/g, ' ').trim();
      throw new FleetApiError(
        `${call} answered ${answer.status} with something that is not JSON (${answer.type ?? 'no content type'}): ${begin}`,
        { kind: 'malformed', transient: false, status: answer.status },
        { cause },
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  async #send(
    request: TransportRequest,
    call: string,
  ): Promise<{ status: number; retryAfter: string | null; type: string | null; text: string }> {
    request.signal?.throwIfAborted();
    const { origin, pathname, search } = new URL(request.url);
    using deadline = deadlineAfter(request.timeout_ms, request.signal);
    try {
      const options: Dispatcher.RequestOptions & { origin: string } = {
        origin,
        path: `${pathname}${search}`,
        method: request.method,
        headers: {
          accept: 'application/json',
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...request.headers,
        },
        body: request.body === undefined ? null : JSON.stringify(request.body),
        signal: deadline.signal,
      };
      const response = await this.#agent.request(options);
      return {
        status: response.statusCode,
        retryAfter: first(response.headers['retry-after']),
        type: first(response.headers['content-type']),
        text: await response.body.text(),
      };
    } catch (error) {
      if (deadline.expired) {
        throw new FleetApiError(`${call} had no answer within ${Math.round(request.timeout_ms)} ms`, {
          kind: 'timeout',
          transient: true,
        });
      }
      request.signal?.throwIfAborted();
      throw this.#broken(error, call);
    }
  }

  #broken(error: unknown, call: string): FleetApiError {
    const code = codeOf(error);
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') {
      return new FleetApiError(`${call} answered more than ${answerLimit} bytes`, {
        kind: 'malformed',
        transient: false,
      });
    }
    const why = code || this.#clean(error instanceof Error ? error.message : String(error));
    const unsent = wasNeverSent(code);
    return new FleetApiError(
      unsent ? `${call} could not be sent (${why})` : `${call} lost its connection (${why})`,
      { kind: 'transport', transient: !isCertificateFault(code), unsent },
      { cause: error },
    );
  }

  #clean(text: string): string {
    return this.#secret.length < shortestSecret ? text : text.replaceAll(this.#secret, '[key]');
  }
}
