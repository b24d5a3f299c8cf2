import type { GatewaySession } from '../../../src/gateway/session.ts';
import type { Loose } from './fake-vllm.ts';
import { events, post } from './open-gateway.ts';

/** How the CLI says who of its agents asks (facts: claude-code 1). */
export function cliHeaders(
  role: 'main' | 'subagent' | 'auxiliary' = 'main',
  id?: string,
): Record<string, string> {
  return {
    'user-agent': 'claude-cli/2.1.332 (external, sdk-cli)',
    'x-claude-code-session-id': '7a1f',
    'x-claude-code-request-class': role,
    ...(id === undefined ? {} : { 'x-claude-code-agent-id': id }),
  };
}

/** An answer as an agent hears it. */
export interface Heard {
  readonly status: number;
  /** Anthropic content blocks; a tool's input is the raw text that was streamed. */
  readonly blocks: readonly Loose[];
  readonly stop: string | null;
}

/** Content blocks and stop reason out of a stream's events. Throws when the stream has no end. */
export function readStream(text: string): Pick<Heard, 'blocks' | 'stop'> {
  const blocks: Loose[] = [];
  let stop: string | null = null;
  let ended = false;
  for (const { event, data } of events(text)) {
    if (event === 'content_block_start') blocks[data.index] = { ...data.content_block };
    if (event === 'message_delta') stop = data.delta.stop_reason;
    if (event === 'message_stop') ended = true;
    if (event !== 'content_block_delta') continue;
    const block = blocks[data.index];
    const { delta } = data;
    if (delta.type === 'text_delta') block.text += delta.text;
    if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
    if (delta.type === 'signature_delta') block.signature = delta.signature;
    if (delta.type === 'input_json_delta') {
      block.input = (typeof block.input === 'string' ? block.input : '') + delta.partial_json;
    }
  }
  if (!ended) throw new Error('the stream has no message_stop');
  return { blocks, stop };
}

/** A tool's input as the CLI gives it back: parsed, in another order, with a default; or wrapped when it is no JSON. */
function echoedInput(input: unknown): unknown {
  if (typeof input !== 'string') return input;
  let value: unknown;
  try {
    value = JSON.parse(input);
  } catch {
    return { __unparsedToolInput: { raw: input, len: input.length } };
  }
  if (value === null || typeof value !== 'object') return value ?? {};
  return { replace_all: false, ...Object.fromEntries(Object.entries(value).reverse()) };
}

/**
 * The CLI's echo of an answer (facts: claude-code 3): not what was sampled. null where it drops the turn: nothing of it is
 * visible, or it promises a tool call and has none.
 */
export function echo({ blocks, stop }: Pick<Heard, 'blocks' | 'stop'>): Loose {
  const calls = blocks.filter((block) => block.type === 'tool_use');
  if (stop === 'tool_use' && calls.length === 0) return null;
  const seen = blocks.some((block) => block.type === 'tool_use' || (block.text ?? '').trim() !== '');
  if (!seen) return null;
  return {
    role: 'assistant',
    content: blocks
      .filter((block) => block.type !== 'text' || block.text !== '')
      .map((block) => (block.type === 'tool_use' ? { ...block, input: echoedInput(block.input) } : block)),
  };
}

/** The results of an answer's tool calls in one user message; null when it has none. */
export function toolResults({ blocks }: Pick<Heard, 'blocks'>, text: string): Loose {
  const calls = blocks.filter((block) => block.type === 'tool_use');
  if (calls.length === 0) return null;
  return {
    role: 'user',
    content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: text })),
  };
}

/** What the CLI makes of the user message before an answer that it drops (facts: claude-code 3a and 3b). */
export function reminded(message: Loose, reminder: string): Loose {
  const blocks =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const last = blocks.at(-1);
  return {
    role: 'user',
    content: [
      ...blocks.slice(0, -1),
      last?.type === 'text' ? { ...last, text: `${last.text}\n` } : last,
      { type: 'text', text: `<system-reminder>[${reminder}]</system-reminder>` },
    ],
  };
}

/** One of the CLI's agents, or its like: holds a history, asks with it, and takes what it hears into it. */
export class CliAgent {
  readonly #session: GatewaySession;
  readonly #headers: Record<string, string>;
  readonly #rest: Record<string, unknown>;
  history: readonly Loose[] = [];

  constructor(
    session: GatewaySession,
    headers: Record<string, string> = cliHeaders(),
    rest: Record<string, unknown> = {},
  ) {
    this.#session = session;
    this.#headers = headers;
    this.#rest = { model: 'm', max_tokens: 400, stream: true, tools: [bash], system: 'You work.', ...rest };
  }

  tell(content: unknown): this {
    this.history = [...this.history, { role: 'user', content }];
    return this;
  }

  /** Sends the history as it stands. */
  async send(signal?: AbortSignal, rest: Record<string, unknown> = {}): Promise<Heard> {
    const response = await post(
      this.#session,
      '/v1/messages?beta=true',
      { ...this.#rest, messages: this.history, ...rest },
      { headers: this.#headers, ...(signal === undefined ? {} : { signal }) },
    );
    const text = await response.text();
    if (response.status !== 200) return { status: response.status, blocks: [], stop: null };
    if (this.#rest['stream'] === true) return { status: 200, ...readStream(text) };
    const { content, stop_reason: stop } = JSON.parse(text);
    return { status: 200, blocks: content, stop };
  }

  /** Takes an answer into the history, with the results of its calls. */
  take(heard: Heard, result = 'ok'): this {
    const turn = echo(heard);
    if (turn === null) {
      const last = this.history.at(-1);
      this.history = [
        ...this.history.slice(0, -1),
        reminded(last, 'Your previous response had no visible output'),
      ];
      return this;
    }
    const results = toolResults(heard, result);
    this.history = [...this.history, turn, ...(results === null ? [] : [results])];
    return this;
  }

  /** Asks and takes the answer in. */
  async turn(content?: unknown): Promise<Heard> {
    if (content !== undefined) this.tell(content);
    const heard = await this.send();
    if (heard.status === 200) this.take(heard);
    return heard;
  }
}

export const bash = {
  name: 'Bash',
  input_schema: { type: 'object', properties: { command: { type: 'string' } } },
};
