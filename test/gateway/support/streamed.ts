import type { ServerResponse } from 'node:http';
import { until } from '../../support/wait.ts';
import { completion, json, type Loose, type Play, type Sampled } from './fake-vllm.ts';

/** Text in pieces as tokens have them, no character cut. */
function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,3}(?![\udc00-\udfff])/g) ?? [];
}

/** The deltas of a completion's message, in the order of sampled text. */
function deltas({ content, reasoning, tool_calls: calls = [] }: Loose): Loose[] {
  return [
    ...pieces(reasoning ?? '').map((text) => ({ reasoning: text })),
    ...pieces(content ?? '').map((text) => ({ content: text })),
    ...calls.flatMap(({ id, function: called }: Loose, index: number) => [
      { tool_calls: [{ index, id, type: 'function', function: { name: called.name, arguments: '' } }] },
      ...pieces(called.arguments as string).map((text) => ({
        tool_calls: [{ index, function: { arguments: text } }],
      })),
    ]),
  ];
}

/** The first chunk of vLLM's stream: the role, and the prompt's ids. */
export const opening = (prompt: readonly number[] = [1, 2, 3, 4]): Loose => ({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
  prompt_token_ids: prompt,
});

/** A chunk of one token. */
export const token = (delta: Loose, id = 11, rest: Loose = {}): Loose => ({
  object: 'chat.completion.chunk',
  choices: [
    {
      index: 0,
      delta,
      logprobs: { content: [{ token: 't', logprob: -id / 100, bytes: [116], top_logprobs: [] }] },
      finish_reason: null,
      token_ids: [id],
      ...rest,
    },
  ],
});

/** The chunk that a stream's options ask for, behind the last token. */
export const usage = (completionTokens: number, promptTokens = 4): Loose => ({
  object: 'chat.completion.chunk',
  choices: [],
  usage: {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  },
});

/** A completion as vLLM streams it: its message in pieces, its tokens on the last ones. */
export function chunksOf(whole: Loose): Loose[] {
  const [choice] = whole.choices;
  const head = { object: 'chat.completion.chunk' };
  const chunk = (rest: Loose): Loose => ({ ...head, choices: [{ index: 0, finish_reason: null, ...rest }] });
  return [
    opening(whole.prompt_token_ids),
    ...deltas(choice.message).map((delta) => chunk({ delta })),
    chunk({
      delta: {},
      logprobs: choice.logprobs,
      token_ids: choice.token_ids,
      finish_reason: choice.finish_reason,
      stop_reason: choice.stop_reason,
    }),
    { ...head, choices: [], usage: whole.usage },
  ];
}

const event = (data: unknown): string =>
  `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

/** Streams a completion to who asked for a stream, and gives it whole to others. */
export const streams =
  (sampled?: Sampled): Play =>
  (_request, response, body) => {
    const whole = completion(sampled);
    if (body.stream !== true) return json(response, 200, whole);
    begin(response);
    response.end([...chunksOf(whole), '[DONE]'].map(event).join(''));
  };

/** A stream whose chunks the test sends. */
export class HeldStream {
  #response: ServerResponse | null = null;

  readonly play: Play = (_request, response) => {
    begin(response);
    response.flushHeaders();
    this.#response = response;
  };

  /** Waits until the policy was asked. */
  async asked(): Promise<ServerResponse> {
    await until(() => this.#response !== null, 'the policy is asked');
    return this.#response!;
  }

  async send(...chunks: readonly unknown[]): Promise<void> {
    (await this.asked()).write(chunks.map(event).join(''));
  }

  async end(...chunks: readonly unknown[]): Promise<void> {
    (await this.asked()).end([...chunks, '[DONE]'].map(event).join(''));
  }

  /** Breaks the connection once what was sent is on its way. */
  async die(): Promise<void> {
    const response = await this.asked();
    response.write('\n', () => response.destroy());
  }
}
