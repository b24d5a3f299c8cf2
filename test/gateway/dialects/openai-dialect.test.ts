import { expect, test } from 'vitest';
import { FakeVllm, fault, sample } from '../support/fake-vllm.ts';
import { events, openGateway, post } from '../support/open-gateway.ts';

const path = '/v1/chat/completions';
const messages = [{ role: 'user', content: 'hi' }];
const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];

test('a unary answer has the message and usage, and no ids or logprobs unless asked (case 59)', async () => {
  await using vllm = await FakeVllm.start(sample({ content: 'yes', reasoning: 'hm', ids: [5, 6] }));
  await using opened = await openGateway(vllm.url);
  const body = await (await post(opened.session, path, { model: 'gpt', messages })).json();
  expect(body).toMatchObject({
    object: 'chat.completion',
    model: 'gpt',
    choices: [
      { index: 0, message: { content: 'yes', reasoning: 'hm' }, logprobs: null, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
  });
  expect(JSON.stringify(body)).not.toContain('token_ids');
  const asked = await post(opened.session, path, {
    model: 'gpt',
    messages,
    logprobs: true,
    return_token_ids: true,
  });
  expect(await asked.json()).toMatchObject({
    prompt_token_ids: [1, 2, 3, 4],
    choices: [
      {
        token_ids: [5, 6],
        logprobs: { content: [{ token: 'token_id:5', logprob: Math.fround(-0.05) }, {}] },
      },
    ],
  });
});

test('a stream is the unary answer replayed, tool calls with their ids once, usage where asked', async () => {
  await using vllm = await FakeVllm.start(
    sample({
      content: 'see',
      tools: [
        { name: 'look', arguments: '{"b": 1}' },
        { name: 'look', arguments: '' },
      ],
    }),
  );
  await using opened = await openGateway(vllm.url);
  const response = await post(opened.session, path, {
    model: 'gpt',
    messages,
    tools,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(response.headers.get('content-type')).toMatch(/text\/event-stream/);
  const all = events(await response.text()).map(({ data }) => data);
  const deltas = all.flatMap(
    (chunk) => chunk.choices?.map((choice: { delta: unknown }) => choice.delta) ?? [],
  );
  expect(deltas).toMatchObject([
    { role: 'assistant' },
    { content: 'see' },
    { tool_calls: [{ index: 0, id: expect.stringMatching(/^toolu_/), function: { arguments: '{"b": 1}' } }] },
    { tool_calls: [{ index: 1, function: { name: 'look', arguments: '' } }] },
    {},
  ]);
  expect(all.at(-3).choices[0].finish_reason).toBe('tool_calls');
  expect(all.at(-2).usage).toMatchObject({ completion_tokens: 3 });
  expect(all.at(-1)).toBe('[DONE]');
  expect((await opened.session.finish())[0]!.fate).toBe('delivered');
});

test('the request reaches the policy in the middle form, with sampling of ours', async () => {
  await using vllm = await FakeVllm.start();
  await using opened = await openGateway(vllm.url);
  await post(opened.session, path, {
    model: 'gpt',
    temperature: 0,
    stop: 'END',
    max_completion_tokens: 33,
    tools,
    tool_choice: 'required',
    parallel_tool_calls: false,
    messages: [
      { role: 'developer', content: 'sys' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'r',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"a":1}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'done' },
    ],
  });
  expect(vllm.bodies[0]).toMatchObject({
    temperature: 1,
    stop: ['END'],
    max_tokens: 33,
    tool_choice: 'required',
    parallel_tool_calls: false,
    messages: [
      { role: 'system', content: 'sys' },
      { role: 'user', content: 'a\nb' },
      { role: 'assistant', content: null, reasoning: 'r', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'done' },
    ],
  });
  expect((await opened.session.finish())[0]!.notes).toEqual(['guided_decoding']);
});

test('errors have OpenAI’s shape and the policy’s status; image URLs are refused before the policy is asked', async () => {
  await using vllm = await FakeVllm.start(fault(422, 'bad field'));
  await using opened = await openGateway(vllm.url);
  const refused = await post(opened.session, path, { model: 'gpt', messages });
  expect(refused.status).toBe(422);
  expect(await refused.json()).toMatchObject({ error: { message: expect.stringContaining('bad field') } });
  const image = { type: 'image_url', image_url: { url: 'http://10.0.0.1/x.png' } };
  const remote = await post(opened.session, path, {
    model: 'gpt',
    messages: [{ role: 'user', content: [image] }],
  });
  expect(remote.status).toBe(400);
  expect((await post(opened.session, path, { model: 'gpt', messages, n: 2 })).status).toBe(400);
  expect(vllm.bodies).toHaveLength(1);
});
