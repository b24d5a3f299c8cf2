import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from '../../support/wait.ts';

/** Bodies of the wire, which tests read as they please. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Loose = any;

export interface Sampled {
  readonly content?: string | null;
  readonly reasoning?: string;
  /** Name and raw argument string; an id only where the test cares. */
  readonly tools?: readonly { name: string; arguments: string; id?: string }[];
  readonly finish?: string;
  readonly stopReason?: string | number | null;
  readonly prompt?: readonly number[];
  readonly ids?: readonly number[];
  readonly logprobs?: readonly (number | null)[];
}

/** A chat completion as vLLM writes it, with made-up but consistent ids. */
export function completion(sampled: Sampled = {}): Loose {
  const ids = sampled.ids ?? [11, 12, 13];
  const prompt = sampled.prompt ?? [1, 2, 3, 4];
  const logprobs = sampled.logprobs ?? ids.map((id) => -id / 100);
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    model: 'policy',
    prompt_token_ids: prompt,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: sampled.content === undefined ? (sampled.tools ? null : 'hello') : sampled.content,
          ...(sampled.reasoning === undefined ? {} : { reasoning: sampled.reasoning }),
          ...(sampled.tools === undefined
            ? {}
            : {
                tool_calls: sampled.tools.map((tool, at) => ({
                  id: tool.id ?? `chatcmpl-tool-${at}`,
                  type: 'function',
                  function: { name: tool.name, arguments: tool.arguments },
                })),
              }),
        },
        logprobs: {
          content: logprobs.map((logprob, at) => ({
            token: `t${ids[at]}`,
            logprob,
            bytes: null,
            top_logprobs: [],
          })),
        },
        finish_reason: sampled.finish ?? (sampled.tools ? 'tool_calls' : 'stop'),
        stop_reason: sampled.stopReason ?? null,
        token_ids: ids,
      },
    ],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: ids.length,
      total_tokens: prompt.length + ids.length,
    },
  };
}

export type Play = (request: IncomingMessage, response: ServerResponse, body: Loose) => void | Promise<void>;

export function json(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Answers with a completion. */
export const sample =
  (sampled?: Sampled): Play =>
  (_request, response) =>
    json(response, 200, completion(sampled));

/** Answers with an error in vLLM's shape. */
export const fault =
  (status: number, message = 'no', headers = {}): Play =>
  (_request, response) =>
    json(response, status, { error: { message, type: 'Error', code: status } }, headers);

/** Never answers. */
export const hang: Play = () => {};

/** An answer that the test lets go. */
export function gate(sampled?: Sampled): { play: Play; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    open,
    play: async (_request, response) => {
      await opened;
      if (!response.destroyed) json(response, 200, completion(sampled));
    },
  };
}

/** Where an engine samples. */
const chatRoutes = new Set(['/v1/chat/completions', '/v1/completions', '/generate']);

/**
 * A vLLM-like server for faults that a sound server does not show: plays what each test puts in, records what it was
 * asked. Chats take the next play, or the last one again.
 */
export class FakeVllm implements AsyncDisposable {
  readonly bodies: Loose[] = [];
  readonly headers: IncomingMessage['headers'][] = [];
  /** Chats whose client went away before an answer. */
  aborted = 0;
  /** The ids that `/abort_request` was given, as SGLang has it. */
  readonly abortRequests: string[] = [];
  /** Bodies of further GET routes. */
  readonly gets = new Map<string, unknown>();
  plays: Play[] = [sample()];
  /** `/tokenize`; 404 when null. */
  tokenize: ((body: Loose) => { count: number; tokens: number[] } | null) | null = null;
  #server: Server;
  #port = 0;

  private constructor() {
    this.#server = this.#create();
  }

  #create(): Server {
    return createServer((request, response) => {
      void this.#handle(request, response);
    });
  }

  static async start(...plays: Play[]): Promise<FakeVllm> {
    const fake = new FakeVllm();
    if (plays.length > 0) fake.plays = plays;
    await fake.#listen(0);
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async #listen(port: number): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body = text === '' ? null : JSON.parse(text);
    if (chatRoutes.has(request.url ?? '')) {
      this.bodies.push(body);
      this.headers.push(request.headers);
      response.on('close', () => {
        if (!response.writableFinished) this.aborted++;
      });
      const play = this.plays.length > 1 ? this.plays.shift()! : this.plays[0]!;
      await play(request, response, body);
    } else if (request.url === '/abort_request') {
      this.abortRequests.push(body.rid);
      json(response, 200, {});
    } else if (request.url === '/tokenize' && this.tokenize !== null) {
      const counted = this.tokenize(body);
      if (counted === null) json(response, 400, { error: { message: 'template' } });
      else json(response, 200, counted);
    } else if (request.method === 'GET' && this.gets.has(request.url ?? '')) {
      json(response, 200, this.gets.get(request.url ?? ''));
    } else if (request.url === '/v1/models') {
      json(response, 200, { object: 'list', data: [{ id: 'policy', object: 'model', owned_by: 'vllm' }] });
    } else if (request.url === '/health') {
      json(response, 200, '');
    } else {
      json(response, 404, { detail: 'Not Found' });
    }
  }

  /** Waits until it was asked `count` times. */
  async asked(count: number): Promise<Loose> {
    await until(() => this.bodies.length >= count, `the policy was asked ${count} times`);
    return this.bodies[count - 1];
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** Listens again on the same port. */
  async restart(): Promise<void> {
    this.#server = this.#create();
    await this.#listen(this.#port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.stop();
  }
}
