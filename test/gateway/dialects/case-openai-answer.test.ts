import { describe, expect, test } from 'vitest';
import { FakeVllm, fault, hang, type Loose, type Sampled } from '../support/fake-vllm.ts';
import { events, openGateway } from '../support/open-gateway.ts';
import { streams } from '../support/streamed.ts';
import { foldChunks } from './strict-stream.ts';
import { askOpenai } from './through-gateway.ts';

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];

/** The answer both ways, which says the same, passed on while it comes too, and the stream's chunks. */
async function answered(
  sampled: Sampled,
  body: Record<string, unknown> = {},
): Promise<{ unary: Loose; chunks: Loose[] }> {
  await using vllm = await FakeVllm.start(streams(sampled));
  await using opened = await openGateway(vllm.url);
  await using passing = await openGateway(vllm.url, { policy: { streaming: true } });
  const ask = async (stream: boolean, more = {}, by = opened): Promise<string> =>
    (await askOpenai(await by.open(), { ...body, ...more, stream })).text();
  const unary = JSON.parse(await ask(false));
  const usage = { stream_options: { include_usage: true } };
  const same = (answer: Loose): unknown =>
    JSON.parse(JSON.stringify({ ...answer, id: 0, created: 0 }).replace(/toolu_\w+/g, 'toolu'));
  for (const told of [await ask(true, usage), await ask(true, usage, passing)]) {
    expect(same(foldChunks(events(told)))).toEqual(same(unary));
  }
  return { unary, chunks: events(await ask(true)).map(({ data }) => data) };
}

describe('an answer of the OpenAI API', () => {
  test('59: has message and usage, and neither ids, logprobs nor stop reasons of the engine unless asked', async () => {
    const { unary, chunks } = await answered({
      content: 'yes',
      reasoning: 'hm',
      ids: [5, 6],
      stopReason: 'X',
    });
    expect(unary).toEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'gpt',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'yes', reasoning: 'hm' },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 4,
        completion_tokens: 2,
        total_tokens: 6,
        prompt_tokens_details: { cached_tokens: 0 },
      },
    });
    expect(JSON.stringify(chunks)).not.toMatch(/token_id|"logprob"|stop_reason|usage/);
  });

  test('59: has ids and logprobs where they are asked for, and its finish reason all the same', async () => {
    const { unary, chunks } = await answered(
      { ids: [5, 6], logprobs: [-0.5, null] },
      { logprobs: true, top_logprobs: 5, return_token_ids: true },
    );
    const entry = { bytes: null, top_logprobs: [] };
    const choice = {
      token_ids: [5, 6],
      finish_reason: 'stop',
      logprobs: {
        content: [
          { ...entry, token: 'token_id:5', logprob: -0.5 },
          { ...entry, token: 'token_id:6', logprob: null },
        ],
      },
    };
    expect(unary).toMatchObject({ prompt_token_ids: [1, 2, 3, 4], choices: [choice] });
    expect(chunks[0]).toMatchObject({ prompt_token_ids: [1, 2, 3, 4] });
    expect(chunks.at(-2)).toMatchObject({ choices: [{ ...choice, delta: {} }] });
  });

  test('59: tells tool calls with their ids once, arguments as they were sampled', async () => {
    const given = ['{"b": 1}', '', '{"a'].map((raw) => ({ name: 'look', arguments: raw }));
    const { unary, chunks } = await answered({ content: 'see', tools: given }, { tools });
    expect(unary.choices[0].message.tool_calls).toMatchObject(
      given.map((called) => ({ id: expect.stringMatching(/^toolu_/), type: 'function', function: called })),
    );
    expect(chunks.slice(0, -1).map(({ choices }) => choices[0].delta as unknown)).toMatchObject([
      { role: 'assistant', content: '' },
      { content: 'see' },
      { tool_calls: [{ index: 0, id: expect.stringMatching(/^toolu_/) }] },
      { tool_calls: [{ index: 1 }] },
      { tool_calls: [{ index: 2 }] },
      {},
    ]);
  });

  test.each<[Sampled, string]>([
    [{ finish: 'stop' }, 'stop'],
    [{ finish: 'stop', stopReason: 'END' }, 'stop'],
    [{ finish: 'length' }, 'length'],
    [{ finish: 'stop', tools: [{ name: 'look', arguments: '{}' }] }, 'tool_calls'],
    [{ finish: 'tool_calls' }, 'stop'],
    [{ finish: 'content_filter' }, 'content_filter'],
  ])('59: %o ends in %s', async (sampled, reason) => {
    expect((await answered(sampled)).unary.choices[0].finish_reason).toBe(reason);
  });

  test('59: ends in usage only where the stream’s options ask for it', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const last = async (stream_options: unknown): Promise<Loose> => {
      const response = await askOpenai(opened.session, { stream: true, stream_options });
      return events(await response.text()).at(-2)!.data;
    };
    expect(await last({ include_usage: true })).toMatchObject({
      choices: [],
      usage: { completion_tokens: 3 },
    });
    for (const none of [undefined, null, {}, { include_usage: false }, 'yes']) {
      expect((await last(none)).choices).toHaveLength(1);
    }
  });
});

describe('an error of the OpenAI API', () => {
  test.each([false, true])('59: has OpenAI’s shape and the policy’s status (stream: %s)', async (stream) => {
    await using vllm = await FakeVllm.start(
      fault(422, 'bad field'),
      fault(400, "This model's maximum context length is 8 tokens and your request has 9 input tokens"),
    );
    await using opened = await openGateway(vllm.url);
    const refused = await askOpenai(opened.session, { stream });
    expect(refused.status).toBe(422);
    expect(await refused.json()).toEqual({
      error: {
        message: expect.stringContaining('bad field'),
        type: 'invalid_request_error',
        param: null,
        code: 'policy_error',
      },
    });
    const long = await askOpenai(opened.session, { stream, user: 'another' });
    expect(long.status).toBe(400);
    expect(await long.json()).toMatchObject({
      error: {
        code: 'context_length_exceeded',
        message: expect.stringMatching(/length is 8 tokens.*have 9\./),
      },
    });
  });

  test('59: inside a stream is the last thing before [DONE]', async () => {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url, {
      gateway: { withholdSeconds: 0.02 },
      limits: { turn_seconds: 0.3 },
    });
    const response = await askOpenai(opened.session, { stream: true });
    expect(response.status).toBe(200);
    const told = events(await response.text()).map(({ data }) => data);
    expect(told).toEqual([{ error: expect.objectContaining({ type: 'server_error' }) }, '[DONE]']);
  });
});
