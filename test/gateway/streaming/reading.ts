import { connect, type Socket } from 'node:net';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { until } from '../../support/wait.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { events, post, type Event } from '../support/open-gateway.ts';

export type Dialect = 'anthropic' | 'openai';

const paths: Readonly<Record<Dialect, string>> = {
  anthropic: '/v1/messages',
  openai: '/v1/chat/completions',
};

/** The body of a request for a stream, in words that both dialects have. */
export const streamBody = (text: string, rest: Loose = {}): Loose => ({
  model: 'm',
  max_tokens: 2000,
  stream: true,
  messages: [{ role: 'user', content: text }],
  ...rest,
});

/** A stream that is read as it comes. */
export class StreamReader {
  readonly status: number;
  readonly #response: Response;
  #text = '';
  #over = false;
  readonly #done: Promise<void>;

  private constructor(response: Response) {
    this.status = response.status;
    this.#response = response;
    this.#done = this.#read();
  }

  /** Resolves once the headers are there. */
  static async open(
    session: GatewaySession,
    dialect: Dialect,
    body: Loose,
    signal?: AbortSignal,
  ): Promise<StreamReader> {
    const options = signal === undefined ? {} : { signal };
    return new StreamReader(await post(session, paths[dialect], body, options));
  }

  async #read(): Promise<void> {
    try {
      const decoder = new TextDecoder('utf-8', { fatal: true });
      for await (const chunk of this.#response.body as unknown as AsyncIterable<Uint8Array>) {
        this.#text += decoder.decode(chunk, { stream: true });
      }
    } catch {
      // It left.
    }
    this.#over = true;
  }

  get text(): string {
    return this.#text;
  }

  get over(): boolean {
    return this.#over;
  }

  get events(): Event[] {
    return events(this.#text.slice(0, this.#text.lastIndexOf('\n\n') + 2));
  }

  /** What text the stream has said so far, thinking and arguments included. */
  get said(): string {
    return this.events.map(({ data }) => saidBy(data)).join('');
  }

  async until(text: string): Promise<void> {
    await until(() => this.said.includes(text), `the agent has read ${JSON.stringify(text)}`);
  }

  /** Every event. */
  async all(): Promise<Event[]> {
    await this.#done;
    return this.events;
  }
}

function saidBy(data: Loose): string {
  const { text, thinking, partial_json } = data.delta ?? {};
  const { content, reasoning, tool_calls } = data.choices?.[0]?.delta ?? {};
  const given = (tool_calls ?? []).map((call: Loose) => call.function.arguments as string).join('');
  return [text, thinking, partial_json, reasoning, content, given].filter(Boolean).join('');
}

/** A client that sends a request for a stream and reads nothing until it is resumed. */
export function pausedClient(session: GatewaySession, dialect: Dialect, body: Loose): Socket {
  const { hostname, port } = new URL(session.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.pause();
  const text = JSON.stringify(body);
  socket.write(
    `POST ${paths[dialect]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${session.bearer}\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  return socket;
}
