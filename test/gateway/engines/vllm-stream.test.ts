import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EngineAnswer } from '../../../src/gateway/engines/engine.ts';
import { readVllmStream } from '../../../src/gateway/engines/read-vllm-stream.ts';
import { readVllmAnswer } from '../../../src/gateway/engines/vllm-answer.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { pythonJson, said, sse, vllmChunks, vllmUnary, type Said } from './support/mouths.ts';

async function* body(chunks: Iterable<Buffer>): AsyncGenerator<Buffer> {
  yield* chunks;
}

interface Outcome {
  readonly answer: EngineAnswer | null;
  readonly error: unknown;
  readonly partials: readonly EngineAnswer[];
}

async function read(chunks: AsyncIterable<Buffer>): Promise<Outcome> {
  const partials: EngineAnswer[] = [];
  try {
    const answer = await readVllmStream(chunks, (partial) => partials.push(partial));
    return { answer, error: null, partials };
  } catch (error) {
    return { answer: null, error, partials };
  }
}

const ofText = (text: string): Promise<Outcome> => read(body([Buffer.from(text)]));

/** The answer in these chunks, and `[DONE]`. */
async function of(chunks: readonly unknown[]): Promise<EngineAnswer> {
  const { answer, error } = await ofText(sse(chunks));
  if (answer === null) throw error;
  return answer;
}

/** Chunks of one choice, from its deltas. */
const chunksOf = (...deltas: readonly unknown[]): Loose[] => [
  ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
  { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
];

/** Tool calls out of these `tool_calls` deltas, without ids. */
async function callsOf(...deltas: readonly (readonly unknown[])[]): Promise<unknown[]> {
  const answer = await of(chunksOf(...deltas.map((tool_calls) => ({ tool_calls }))));
  return answer.tool_calls.map((call) => [call.id, call.name, call.arguments]);
}

const opening = (index: number, id: string, name: string, given?: string): unknown => ({
  index,
  id,
  type: 'function',
  function: { name, ...(given === undefined ? {} : { arguments: given }) },
});
const more = (index: number, given: string): unknown => ({ index, function: { arguments: given } });

const saidArbitrary: fc.Arbitrary<Said> = fc
  .record({
    content: fc.string({ unit: 'grapheme' }),
    reasoning: fc.string({ unit: 'grapheme' }),
    tools: fc.array(
      fc.record({
        name: fc.constantFrom('Bash', 'Read'),
        arguments: fc.oneof(fc.json(), fc.string({ unit: 'grapheme' })),
      }),
      { maxLength: 3 },
    ),
    ids: fc.array(fc.nat({ max: 2 ** 31 - 1 }), { minLength: 1, maxLength: 30 }),
    named: fc.boolean(),
    finish: fc.constantFrom('stop', 'length', 'tool_calls', 'abort'),
    stop: fc.option(fc.string()),
  })
  .map((made) => said({ ...made, logprobs: made.ids.map((id) => -(id % 97) / 7) }));

describe('a streamed answer', () => {
  test('is the whole answer of the same tokens, wherever its bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        saidArbitrary,
        fc.constantFrom('\n', '\r\n'),
        fc.array(fc.nat()),
        async (made, newline, places) => {
          const bytes = Buffer.from(sse(vllmChunks(made)).replaceAll('\n', newline));
          const edges = [0, ...places.map((at) => at % bytes.length).sort((a, b) => a - b), bytes.length];
          const parts = edges.slice(1).map((to, at) => bytes.subarray(edges[at], to));
          const { answer, partials } = await read(body(parts));
          expect(answer).toEqual(readVllmAnswer(Buffer.from(vllmUnary.write(made))));
          expect(partials).toEqual([]);
        },
      ),
    );
  });

  test('cut anywhere is told as a beginning of the answer, or is the answer when nothing but its end is missing', async () => {
    const made = said({ content: 'Ein paar Wörter 😀', ids: [5, 6, 7, 8, 9, 10] });
    const bytes = Buffer.from(sse(vllmChunks(made)));
    const whole = readVllmAnswer(Buffer.from(vllmUnary.write(made)))!;
    for (let at = 0; at <= bytes.length; at++) {
      async function* broken(): AsyncGenerator<Buffer> {
        yield bytes.subarray(0, at);
        throw new Error('broken');
      }
      const { answer, error, partials } = await read(broken());
      if (answer !== null) {
        expect(answer).toEqual(whole);
        continue;
      }
      expect(error).toEqual(new Error('broken'));
      expect(partials.length).toBeLessThanOrEqual(1);
      for (const { content, token_ids: ids, logprobs, reasons } of partials) {
        expect(reasons).toEqual(['aborted']);
        expect(whole.content!.startsWith(content!)).toBe(true);
        expect(whole.token_ids!.subarray(0, ids?.length ?? 0)).toEqual(ids ?? new Int32Array(0));
        expect(logprobs?.length ?? 0).toBe(ids?.length ?? 0);
      }
    }
  });
});

describe('ids and logprobs of a stream', () => {
  test('the first chunk has the prompt’s ids and none of its own; a chunk whose text a parser swallowed has ids alone', async () => {
    const answer = await of([
      {
        prompt_token_ids: [1, 2],
        choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null }],
      },
      {
        choices: [
          { index: 0, delta: {}, logprobs: { content: [{ token: '', logprob: -1 }] }, token_ids: [7] },
        ],
      },
      {
        choices: [
          {
            index: 0,
            delta: { content: 'x' },
            logprobs: { content: [{ logprob: -2 }, { logprob: -3 }] },
            token_ids: [8, 9],
            finish_reason: 'stop',
            stop_reason: null,
          },
        ],
      },
      {
        choices: [],
        usage: { prompt_tokens: 2, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 1 } },
      },
    ]);
    expect(answer).toMatchObject({
      prompt_token_ids: Int32Array.of(1, 2),
      token_ids: Int32Array.of(7, 8, 9),
      logprobs: Float32Array.of(-1, -2, -3),
      usage: { prompt_tokens: 2, completion_tokens: 3, cached_tokens: 1 },
      content: 'x',
    });
  });

  test('a chunk that an older build dropped leaves the ids fewer than the counts', async () => {
    const chunks = vllmChunks(said({ ids: [5, 6, 7] }));
    chunks.splice(2, 1);
    const answer = await of(chunks);
    expect(answer.token_ids).toEqual(Int32Array.of(5, 7));
    expect(answer.usage).toMatchObject({ completion_tokens: 3 });
  });

  test('"token_id:N" counts where there are no lists, and disagrees where there are others', async () => {
    const made = said({ ids: [5, 6], named: true });
    expect(await of(vllmChunks(made))).toMatchObject({ token_ids: Int32Array.of(5, 6), reasons: [] });
    const chunks = vllmChunks(made) as Loose[];
    chunks[1].choices[0].token_ids = [5];
    chunks[2].choices[0].token_ids = [7];
    expect(await of(chunks)).toMatchObject({
      token_ids: Int32Array.of(5, 7),
      reasons: ['length_mismatch'],
    });
    const mixed = vllmChunks(made) as Loose[];
    mixed[2].choices[0].logprobs.content[0].token = 'text';
    expect((await of(mixed)).token_ids).toBeNull();
  });

  test('what is no list of ids makes none of them count', async () => {
    for (const bad of [['x'], [1.5], [-1], [2 ** 31], 'x']) {
      const chunks = vllmChunks(said({ ids: [5, 6] })) as Loose[];
      chunks[2].choices[0].token_ids = bad;
      expect((await of(chunks)).token_ids).toBeNull();
    }
  });

  test('a prompt’s ids on the choice count, and the last count of tokens', async () => {
    const chunks = vllmChunks(said({ prompt: null })) as Loose[];
    chunks[0].choices[0].prompt_token_ids = [3, 4];
    chunks[1].usage = { prompt_tokens: 2, completion_tokens: 1 };
    expect(await of(chunks)).toMatchObject({
      prompt_token_ids: Int32Array.of(3, 4),
      usage: { prompt_tokens: 5, completion_tokens: 4 },
    });
  });

  test('only the first choice counts', async () => {
    const chunks = vllmChunks(said({ ids: [5] })) as Loose[];
    chunks.splice(2, 0, { choices: [{ index: 1, delta: { content: 'no' }, token_ids: [99] }] });
    expect(await of(chunks)).toMatchObject({ content: 'hello', token_ids: Int32Array.of(5) });
  });
});

describe('tool calls of a stream', () => {
  test.each<[string, unknown[][], unknown[][]]>([
    [
      'a name, then its arguments in pieces',
      [[opening(0, 'a', 'f', '')], [more(0, '{"x"')], [more(0, ':1}')]],
      [['a', 'f', '{"x":1}']],
    ],
    [
      'the id missing and the name in every delta',
      [
        [{ index: 0, function: { name: 'f', arguments: '{' } }],
        [{ index: 0, function: { name: 'f', arguments: '}' } }],
      ],
      [['', 'f', '{}']],
    ],
    [
      'an empty id and an empty name behind the first',
      [
        [opening(0, 'a', 'f', '{')],
        [{ index: 0, id: '', type: 'function', function: { name: '', arguments: '}' } }],
      ],
      [['a', 'f', '{}']],
    ],
    [
      'null for what is not there',
      [
        [opening(0, 'a', 'f')],
        [{ index: 0, id: null, type: null, function: { name: null, arguments: '{}' } }],
      ],
      [['a', 'f', '{}']],
    ],
    [
      'no index, several calls in one delta',
      [
        [
          { id: 'a', function: { name: 'f', arguments: '{"a":1}' } },
          { id: 'b', function: { name: 'g', arguments: '{"b":2}' } },
        ],
      ],
      [
        ['a', 'f', '{"a":1}'],
        ['b', 'g', '{"b":2}'],
      ],
    ],
    [
      'no index, one call after the other',
      [
        [{ id: 'a', function: { name: 'f', arguments: '{' } }],
        [{ function: { arguments: '}' } }],
        [{ id: 'b', function: { name: 'f', arguments: '{ ' } }],
        [{ function: { arguments: '}' } }],
      ],
      [
        ['a', 'f', '{}'],
        ['b', 'f', '{ }'],
      ],
    ],
    [
      'an index that does not begin at 0',
      [[opening(1, 'a', 'f', '{')], [more(1, '}')], [opening(3, 'b', 'g', '{}')]],
      [
        ['a', 'f', '{}'],
        ['b', 'g', '{}'],
      ],
    ],
    [
      'two calls with index 0 and ids of their own',
      [[opening(0, 'a', 'f', '{"a":')], [more(0, '1}')], [opening(0, 'b', 'f', '{"b":')], [more(0, '2}')]],
      [
        ['a', 'f', '{"a":1}'],
        ['b', 'f', '{"b":2}'],
      ],
    ],
    [
      'two calls with index 0, no ids, other names',
      [
        [{ index: 0, function: { name: 'f', arguments: '{}' } }],
        [{ index: 0, function: { name: 'g', arguments: '{ }' } }],
      ],
      [
        ['', 'f', '{}'],
        ['', 'g', '{ }'],
      ],
    ],
    ['arguments that are never sent', [[opening(0, 'a', 'f')]], [['a', 'f', '']]],
    [
      'arguments as an object',
      [[{ index: 0, id: 'a', function: { name: 'f', arguments: { x: 1 } } }]],
      [['a', 'f', '{"x":1}']],
    ],
    [
      'an empty name in front',
      [[opening(0, 'a', '', '')], [{ index: 0, function: { name: 'f' } }], [more(0, '{}')]],
      [['a', 'f', '{}']],
    ],
    ['no name ever', [[opening(0, 'a', '')], [more(0, '{}')]], []],
    [
      'two calls written in turns',
      [
        [opening(0, 'a', 'f', '{"a"'), opening(1, 'b', 'g', '{"b"')],
        [more(1, ':2}'), more(0, ':1}')],
      ],
      [
        ['a', 'f', '{"a":1}'],
        ['b', 'g', '{"b":2}'],
      ],
    ],
  ])('%s', async (_name, deltas, calls) => {
    expect(await callsOf(...deltas)).toEqual(calls);
  });

  test('text and thinking may come between and behind', async () => {
    const answer = await of(
      chunksOf(
        { reasoning_content: 'h' },
        { content: 'a' },
        { tool_calls: [opening(0, 'a', 'f', '{')] },
        { reasoning: 'm', content: 'b' },
        { tool_calls: [more(0, '}')] },
        { content: 'c' },
      ),
    );
    expect(answer).toMatchObject({
      content: 'abc',
      reasoning: 'hm',
      tool_calls: [{ id: 'a', name: 'f', arguments: '{}' }],
    });
  });
});

describe('the end of a stream', () => {
  const chunks = vllmChunks(said());

  test('an error event is an error although [DONE] comes behind it; what came before is told', async () => {
    const error = { error: { message: 'EngineCore died', type: 'InternalServerError', code: 500 } };
    const { error: thrown, partials } = await ofText(sse([...chunks.slice(0, 3), error]));
    expect(thrown).toMatchObject({
      name: 'EngineError',
      fault: 'busy',
      status: 500,
      message: 'the policy answered HTTP 500: EngineCore died',
    });
    expect(partials).toMatchObject([{ token_ids: Int32Array.of(11, 12), reasons: ['aborted'] }]);
  });

  test('an error event in front tells of nothing, and keeps its kind', async () => {
    const words = "This model's maximum context length is 800 tokens and your request has 900 input tokens";
    const { error, partials } = await ofText(sse([{ error: { message: words, code: 400 } }]));
    expect(error).toMatchObject({ fault: 'overflow', tokens: { prompt: 900, limit: 800 } });
    expect(partials).toEqual([]);
  });

  test('without [DONE] it is the answer when it says how it ended, else it was cut', async () => {
    const events = chunks.map((chunk) => `data: ${pythonJson(chunk)}\n\n`);
    expect((await ofText(events.join(''))).answer).toMatchObject({ finish_reason: 'stop' });
    const { error, partials } = await ofText(events.slice(0, 3).join(''));
    expect(error).toMatchObject({ fault: 'busy', message: 'the policy’s stream ended in mid-answer' });
    expect(partials).toHaveLength(1);
  });

  test('[DONE] without a finish reason gives an answer that says so, [DONE] alone gives none', async () => {
    const unfinished = structuredClone(chunks) as Loose[];
    for (const { choices } of unfinished) for (const choice of choices) choice.finish_reason = null;
    expect(await of(unfinished)).toMatchObject({ finish_reason: null, content: 'hello' });
    expect((await ofText(sse([]))).error).toMatchObject({ fault: 'busy' });
    expect((await ofText('')).error).toMatchObject({ fault: 'busy' });
  });

  test('what comes behind [DONE] is nothing', async () => {
    const text = `${sse(chunks)}data: ${pythonJson(chunks[1])}\n\n`;
    expect((await ofText(text)).answer!.token_ids).toHaveLength(4);
  });

  test('garbage is busy', async () => {
    for (const garbage of ['{"choices":', '[]', '"x"', '{}']) {
      expect((await ofText(`data: ${garbage}\n\n`)).error).toMatchObject({ fault: 'busy' });
    }
  });

  test('a refusal and a filter are refusals', async () => {
    expect((await of(chunksOf({ refusal: 'no' }))).refusal).toBe(true);
    const filtered = chunksOf({ content: 'x' });
    filtered[1].choices[0].finish_reason = 'content_filter';
    expect((await of(filtered)).refusal).toBe(true);
  });
});
