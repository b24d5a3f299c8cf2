import type { ServerResponse } from 'node:http';

/** What an engine sampled and what it says about it; each mouth says it in its own wire's words. */
export interface Said {
  readonly content: string;
  readonly reasoning: string;
  /** Argument strings are JSON objects. */
  readonly tools: readonly { readonly name: string; readonly arguments: string }[];
  /** The chat route's word. */
  readonly finish: string | null;
  readonly stop: string | null;
  readonly prompt: readonly number[] | null;
  readonly ids: readonly number[] | null;
  /** NaN is written as Python writes it. */
  readonly logprobs: readonly (number | null)[] | null;
  readonly usage: { readonly prompt: number; readonly completion: number } | null;
  /** Ids stand in the logprobs' tokens as `token_id:N` and nowhere else. */
  readonly named: boolean;
}

export function said(change: Partial<Said> = {}): Said {
  const ids = change.ids === undefined ? [11, 12, 13, 14] : change.ids;
  const prompt = change.prompt === undefined ? [1, 2, 3, 4, 5] : change.prompt;
  return {
    content: (change.tools?.length ?? 0) > 0 ? '' : 'hello',
    reasoning: '',
    tools: [],
    finish: (change.tools?.length ?? 0) > 0 ? 'tool_calls' : 'stop',
    stop: null,
    prompt,
    ids,
    logprobs: (ids ?? [11, 12, 13, 14]).map((id) => -id / 100),
    usage: { prompt: (prompt ?? [1, 2, 3, 4, 5]).length, completion: (ids ?? [11, 12, 13, 14]).length },
    named: false,
    ...change,
  };
}

const nan = '\u0000nan';

/** JSON as Python's writer has it. */
export function pythonJson(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) => (Number.isNaN(each) ? nan : each)).replaceAll(
    JSON.stringify(nan),
    'NaN',
  );
}

const entries = (answer: Said, from = 0, to = Infinity): unknown =>
  answer.logprobs === null
    ? null
    : {
        content: answer.logprobs.slice(from, to).map((logprob, at) => {
          const id = answer.ids?.[from + at] ?? 11 + from + at;
          return {
            token: answer.named ? `token_id:${id}` : `t${id}`,
            logprob,
            bytes: null,
            top_logprobs: [],
          };
        }),
      };

const usageOf = ({ usage }: Said): unknown =>
  usage === null
    ? undefined
    : {
        prompt_tokens: usage.prompt,
        completion_tokens: usage.completion,
        total_tokens: usage.prompt + usage.completion,
      };

const toolCalls = (answer: Said): unknown[] =>
  answer.tools.map((tool, at) => ({ id: `call-${at}`, type: 'function', function: tool }));

/** One way to write an answer. */
export interface Mouth {
  readonly type: string;
  write(answer: Said): string;
}

export const vllmUnary: Mouth = {
  type: 'application/json',
  write: (answer) =>
    pythonJson({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      prompt_token_ids: answer.prompt,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: answer.content,
            reasoning: answer.reasoning || null,
            tool_calls: toolCalls(answer),
          },
          logprobs: entries(answer),
          finish_reason: answer.finish,
          stop_reason: answer.stop,
          token_ids: answer.named ? null : answer.ids,
        },
      ],
      usage: usageOf(answer),
    }),
};

/** Every delta there is to say, in order: reasoning, then text, then each call opened and written in two pieces. */
function deltas(answer: Said): unknown[] {
  const halves = (text: string): string[] =>
    text === '' ? [] : [text.slice(0, text.length >> 1), text.slice(text.length >> 1)];
  return [
    ...halves(answer.reasoning).map((reasoning) => ({ reasoning })),
    ...halves(answer.content).map((content) => ({ content })),
    ...answer.tools.flatMap((tool, index) => [
      { tool_calls: [{ index, id: `call-${index}`, type: 'function', function: { name: tool.name } }] },
      ...halves(tool.arguments).map((given) => ({
        tool_calls: [{ index, function: { arguments: given } }],
      })),
    ]),
  ];
}

/** The chunks of a stream: one a token at least, with the prompt's ids on the first. */
export function vllmChunks(answer: Said): unknown[] {
  const parts = deltas(answer);
  const tokens = Math.max(answer.ids?.length ?? 0, answer.logprobs?.length ?? 0);
  const steps = Math.max(tokens, parts.length, 1);
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk' };
  return [
    {
      ...head,
      choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
      ...(answer.prompt === null ? {} : { prompt_token_ids: answer.prompt }),
    },
    ...Array.from({ length: steps }, (_unused, at) => ({
      ...head,
      choices: [
        {
          index: 0,
          delta: parts[at] ?? {},
          logprobs: answer.logprobs === null ? null : entries(answer, at, at + 1),
          finish_reason: at === steps - 1 ? answer.finish : null,
          ...(at === steps - 1 ? { stop_reason: answer.stop } : {}),
          ...(answer.named || answer.ids === null ? {} : { token_ids: answer.ids.slice(at, at + 1) }),
        },
      ],
    })),
    ...(answer.usage === null ? [] : [{ ...head, choices: [], usage: usageOf(answer) }]),
  ];
}

export const sse = (chunks: readonly unknown[]): string =>
  [...chunks.map((chunk) => pythonJson(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');

export const vllmStreamed: Mouth = {
  type: 'text/event-stream; charset=utf-8',
  write: (answer) => sse(vllmChunks(answer)),
};

const triplets = (answer: Said): unknown =>
  answer.logprobs === null
    ? undefined
    : answer.logprobs.map((logprob, at) => [logprob, answer.ids?.[at] ?? null, null]);

export const sglangChat: Mouth = {
  type: 'application/json',
  write: (answer) =>
    pythonJson({
      id: 'rid',
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: answer.content,
            reasoning_content: answer.reasoning || null,
            tool_calls: answer.tools.length === 0 ? null : toolCalls(answer),
          },
          logprobs: entries(answer),
          finish_reason: answer.finish,
          matched_stop: answer.stop ?? 151645,
          ...(answer.prompt === null ? {} : { prompt_token_ids: answer.prompt }),
          ...(answer.named || answer.ids === null ? {} : { token_ids: answer.ids }),
        },
      ],
      usage: usageOf(answer),
      metadata: { weight_version: 'default' },
    }),
};

/** The older spelling: ids beside their logprobs. */
export const sglangChatMeta: Mouth = {
  type: 'application/json',
  write: (answer) => {
    const body = JSON.parse(sglangChat.write({ ...answer, logprobs: null })) as {
      choices: Record<string, unknown>[];
    };
    const choice = body.choices[0]!;
    delete choice['token_ids'];
    choice['meta_info'] = { output_token_logprobs: triplets(answer) };
    return pythonJson(body);
  },
};

/** What was sampled as one text, with the special tokens in it. */
function generated(answer: Said): string {
  const calls = answer.tools.map(
    ({ name, arguments: given }) =>
      `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${given}}\n</tool_call>`,
  );
  const thinking = answer.reasoning === '' ? '' : `<think>${answer.reasoning}</think>`;
  return `${thinking}${answer.content}${calls.join('\n')}`;
}

export const vllmCompletions: Mouth = {
  type: 'application/json',
  write: (answer) =>
    pythonJson({
      id: 'cmpl-1',
      object: 'text_completion',
      choices: [
        {
          index: 0,
          text: generated(answer),
          logprobs:
            answer.logprobs === null
              ? null
              : {
                  tokens: answer.logprobs.map(() => 't'),
                  token_logprobs: answer.logprobs,
                  top_logprobs: null,
                },
          finish_reason: answer.finish === 'tool_calls' ? 'stop' : answer.finish,
          stop_reason: answer.stop,
          token_ids: answer.ids,
          prompt_token_ids: answer.prompt,
        },
      ],
      usage: usageOf(answer),
    }),
};

export const sglangGenerate: Mouth = {
  type: 'application/json',
  write: (answer) => {
    const type = answer.finish === 'tool_calls' ? 'stop' : answer.finish;
    return pythonJson({
      text: generated(answer),
      ...(answer.ids === null ? {} : { output_ids: answer.ids }),
      meta_info: {
        id: 'rid',
        finish_reason: type === null ? null : { type, matched: answer.stop ?? 151645 },
        ...(answer.usage === null
          ? {}
          : {
              prompt_tokens: answer.usage.prompt,
              completion_tokens: answer.usage.completion,
              cached_tokens: 0,
            }),
        output_token_logprobs: triplets(answer),
        weight_version: 'default',
      },
    });
  },
};

/** Writes an answer whole. */
export function speak(response: ServerResponse, mouth: Mouth, answer: Said): void {
  response.writeHead(200, { 'content-type': mouth.type });
  response.end(mouth.write(answer));
}
