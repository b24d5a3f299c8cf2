// Requests and answers of bench/gateway, in the two sizes that are measured.

export type Size = 'large' | 'small';

interface Shape {
  /** Bytes of a request, roughly. */
  readonly requestBytes: number;
  readonly sampledIds: number;
  readonly promptIds: number;
}

export const shapes: Readonly<Record<Size, Shape>> = {
  large: { requestBytes: 60_000, sampledIds: 2_000, promptIds: 15_000 },
  small: { requestBytes: 4_000, sampledIds: 50, promptIds: 1_000 },
};

const words = 'the agent reads src/index.ts, finds "a" and says so.\nThen it runs npm test. ';

function prose(bytes: number): string {
  return words.repeat(Math.ceil(bytes / words.length)).slice(0, bytes);
}

/** Spread like real ids and logprobs: most tokens are nearly certain, and engines write all the digits of a double. */
const idAt = (index: number): number => (index * 7919) % 151_643;
const logprobAt = (index: number): number =>
  index % 3 === 0
    ? -(((index * 37) % 100) + 1) / 33
    : Math.fround(-1.1920928955078125e-7 * ((index % 50) + 1));

const content = (size: Size): string => 'word '.repeat(shapes[size].sampledIds);

/** One answer as vLLM words it: an entry for each sampled token, and the prompt's ids. */
export function answerBody(size: Size): Buffer {
  const { sampledIds, promptIds } = shapes[size];
  const sampled = Array.from({ length: sampledIds }, (_item, index) => index);
  return Buffer.from(
    JSON.stringify({
      id: 'chatcmpl-bench',
      object: 'chat.completion',
      created: 1_700_000_000,
      model: 'bench',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: content(size), tool_calls: [] },
          logprobs: {
            content: sampled.map((index) => ({
              token: 'word ',
              logprob: logprobAt(index),
              bytes: [119, 111, 114, 100, 32],
              top_logprobs: [],
            })),
          },
          finish_reason: 'stop',
          stop_reason: null,
          token_ids: sampled.map(idAt),
        },
      ],
      usage: {
        prompt_tokens: promptIds,
        total_tokens: promptIds + sampledIds,
        completion_tokens: sampledIds,
      },
      prompt_token_ids: Array.from({ length: promptIds }, (_item, index) => idAt(index)),
    }),
  );
}

/** The ids of a conversation's rendering: each message is closed with the end that answers of this size are sampled with. */
export function renderedIds(size: Size, messages: readonly { content?: unknown }[]): number[] {
  const end = idAt(shapes[size].sampledIds - 1);
  const filler = end + 1;
  return [
    ...messages.flatMap(({ content: said }) => [
      ...Array<number>(Math.ceil((typeof said === 'string' ? said.length : 0) / 4)).fill(filler),
      end,
    ]),
    filler,
  ];
}

/** An answer to a prompt of ids, as vLLM words it. */
export function completionBody(size: Size, prompt: readonly number[]): Buffer {
  const { sampledIds } = shapes[size];
  const sampled = Array.from({ length: sampledIds }, (_item, index) => index);
  return Buffer.from(
    JSON.stringify({
      id: 'cmpl-bench',
      object: 'text_completion',
      created: 1_700_000_000,
      model: 'bench',
      choices: [
        {
          index: 0,
          text: content(size),
          logprobs: {
            text_offset: sampled.map((index) => index * 5),
            token_logprobs: sampled.map(logprobAt),
            tokens: sampled.map(() => 'word '),
            top_logprobs: sampled.map((index) => ({ 'word ': logprobAt(index) })),
          },
          finish_reason: 'stop',
          stop_reason: null,
          prompt_token_ids: prompt,
          token_ids: sampled.map(idAt),
        },
      ],
      usage: {
        prompt_tokens: prompt.length,
        total_tokens: prompt.length + sampledIds,
        completion_tokens: sampledIds,
      },
    }),
  );
}

/** The same answer as vLLM streams it: a chunk for each token. */
export function answerChunks(size: Size): Buffer[] {
  const chunk = (choice: unknown, root: object = {}): Buffer =>
    Buffer.from(
      `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'bench', choices: [choice], ...root })}\n\n`,
    );
  const { sampledIds, promptIds } = shapes[size];
  const first = chunk(
    { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
    { prompt_token_ids: Array.from({ length: promptIds }, (_item, index) => idAt(index)) },
  );
  const rest = Array.from({ length: sampledIds }, (_item, index) =>
    chunk({
      index: 0,
      delta: { content: 'word ' },
      logprobs: {
        content: [
          { token: 'word ', logprob: logprobAt(index), bytes: [119, 111, 114, 100, 32], top_logprobs: [] },
        ],
      },
      finish_reason: index === sampledIds - 1 ? 'stop' : null,
      token_ids: [idAt(index)],
    }),
  );
  return [first, ...rest, Buffer.from('data: [DONE]\n\n')];
}

const toolSchema = {
  type: 'object',
  properties: { command: { type: 'string', description: 'The command.' }, timeout: { type: 'number' } },
  required: ['command'],
};

/** Parts of one request: a fifth system prompt, a fifth tools, the rest a history of tool calls and their results. */
function parts(size: Size): {
  system: string;
  tools: { name: string; description: string }[];
  results: string[];
} {
  const fifth = shapes[size].requestBytes / 5;
  const tools = size === 'large' ? 10 : 1;
  const results = size === 'large' ? 12 : 2;
  return {
    system: prose(fifth),
    tools: Array.from({ length: tools }, (_item, index) => ({
      name: `Tool${index}`,
      description: prose(Math.max(10, fifth / tools - 250)),
    })),
    results: Array.from({ length: results }, () => prose(Math.max(10, (3 * fifth) / results - 300))),
  };
}

/** A request as the CLI words it; `turn` makes it another than the one before. */
export function anthropicRequest(size: Size, turn: number, stream = false): Buffer {
  const { system, tools, results } = parts(size);
  const messages: unknown[] = [{ role: 'user', content: 'Mend the tests.' }];
  for (const [index, text] of results.entries()) {
    const id = `toolu_${String(index).padStart(24, '0')}`;
    const input = { command: `cat file-${index}.ts`, timeout: 1000 };
    messages.push(
      { role: 'assistant', content: [{ type: 'tool_use', id, name: 'Tool0', input }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: text }] },
    );
  }
  messages.push({ role: 'assistant', content: 'I see.' }, { role: 'user', content: `Go on (${turn}).` });
  return Buffer.from(
    JSON.stringify({
      model: 'bench',
      max_tokens: 4_000,
      system: [{ type: 'text', text: system, cache_control: { type: 'ephemeral' } }],
      tools: tools.map((tool) => ({ ...tool, input_schema: toolSchema })),
      messages,
      ...(stream ? { stream: true } : {}),
    }),
  );
}

/** A request that goes on from the answer to the one with that turn: the answer's echo, and 4 KB of what the agent was told. */
export function continuedRequest(size: Size, turn: number, further: number): Buffer {
  const request = JSON.parse(anthropicRequest(size, turn).toString()) as { messages: unknown[] };
  request.messages.push(
    { role: 'assistant', content: content(size) },
    { role: 'user', content: `${further}: ${prose(4_000)}` },
  );
  return Buffer.from(JSON.stringify(request));
}

/** The same request as an OpenAI client words it that wants ids and logprobs. */
export function openaiRequest(size: Size, turn: number, stream = false): Buffer {
  const { system, tools, results } = parts(size);
  const messages: unknown[] = [
    { role: 'system', content: system },
    { role: 'user', content: 'Mend the tests.' },
  ];
  for (const [index, text] of results.entries()) {
    const id = `call_${String(index).padStart(24, '0')}`;
    const called = { name: 'Tool0', arguments: `{"command": "cat file-${index}.ts", "timeout": 1000}` };
    messages.push(
      { role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: called }] },
      { role: 'tool', tool_call_id: id, content: text },
    );
  }
  messages.push({ role: 'assistant', content: 'I see.' }, { role: 'user', content: `Go on (${turn}).` });
  return Buffer.from(
    JSON.stringify({
      model: 'bench',
      max_tokens: 4_000,
      messages,
      tools: tools.map(({ name, description }) => ({
        type: 'function',
        function: { name, description, parameters: toolSchema },
      })),
      logprobs: true,
      ...(stream ? { stream: true } : {}),
    }),
  );
}
