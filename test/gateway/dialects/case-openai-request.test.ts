import { describe, expect, test } from 'vitest';
import { FakeVllm, type Loose } from '../support/fake-vllm.ts';
import { openGateway } from '../support/open-gateway.ts';
import { askOpenai } from './through-gateway.ts';

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];

/** What the policy is asked, streamed and not. */
async function asked(body: Record<string, unknown>): Promise<Loose> {
  await using vllm = await FakeVllm.start();
  await using opened = await openGateway(vllm.url);
  for (const [stream, session] of [
    [false, opened.session],
    [true, await opened.open()],
  ] as const) {
    const response = await askOpenai(session, { ...body, stream });
    expect(await response.text()).toContain('hello');
  }
  expect(vllm.bodies[1]).toEqual(vllm.bodies[0]);
  return vllm.bodies[0];
}

async function refusal(body: Record<string, unknown>): Promise<string> {
  await using vllm = await FakeVllm.start();
  await using opened = await openGateway(vllm.url);
  const response = await askOpenai(opened.session, body);
  expect(response.status).toBe(400);
  expect(vllm.bodies).toEqual([]);
  const { error } = (await response.json()) as Loose;
  expect(error).toMatchObject({ type: 'invalid_request_error', param: null, code: 'bad_request' });
  return error.message as string;
}

describe('a request of the OpenAI API', () => {
  test('59: reaches the policy in the middle form, with sampling of ours, unknown fields ignored', async () => {
    const body = await asked({
      temperature: 0,
      seed: 3,
      logit_bias: { 1: 100 },
      user: 'u',
      store: true,
      response_format: { type: 'json_object' },
      of_next_year: 1,
      stop: 'END',
      max_tokens: 10,
      max_completion_tokens: 33,
      tools,
      tool_choice: 'required',
      parallel_tool_calls: false,
      messages: [
        { role: 'developer', content: 'sys', name: 'n' },
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
          refusal: null,
          reasoning_content: 'r',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"a": 1}' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: 'done' }] },
        { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
        { role: 'user', content: 'c' },
      ],
    });
    expect(body).toEqual({
      model: 'policy',
      messages: [
        { role: 'system', content: 'sys' },
        { role: 'user', content: 'a\nb' },
        {
          role: 'assistant',
          content: null,
          reasoning: 'r',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"a": 1}' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'done' },
        { role: 'assistant', content: 'no' },
        { role: 'user', content: 'c' },
      ],
      tools,
      tool_choice: 'required',
      parallel_tool_calls: false,
      stop: ['END'],
      max_tokens: 33,
      n: 1,
      stream: false,
      temperature: 1,
      top_p: 1,
      top_k: -1,
      min_p: 0,
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      logprobs: true,
      top_logprobs: 0,
      return_token_ids: true,
    });
  });

  test('59: max_tokens is taken where max_completion_tokens is absent', async () => {
    expect(await asked({ max_tokens: 10 })).toMatchObject({ max_tokens: 10 });
    expect(await asked({ max_completion_tokens: null, max_tokens: 10 })).toMatchObject({ max_tokens: 10 });
  });

  test('59: more than one choice is refused clearly', async () => {
    expect(await refusal({ n: 2 })).toBe('n: must be 1: every call is one sample of the episode');
    expect(await asked({ n: 1 })).toMatchObject({ n: 1 });
  });

  test('59: a function may be forced that is there, and a choice without tools is dropped', async () => {
    const forced = (name: string): unknown => ({ type: 'function', function: { name } });
    expect(await asked({ tools, tool_choice: forced('look') })).toMatchObject({
      tool_choice: forced('look'),
    });
    expect(await asked({ tool_choice: 'required' })).not.toHaveProperty('tool_choice');
    expect(await refusal({ tools, tool_choice: forced('x') })).toMatch(
      /^tool_choice\.function\.name: names no tool/,
    );
    expect(await refusal({ tools, tool_choice: 'any' })).toMatch(/^tool_choice: must be auto/);
    expect(await refusal({ tools: [{ type: 'custom', custom: {} }] })).toBe('tools.0.type: must be function');
  });

  test('3: tool results pair as in the other API', async () => {
    const call = (id: string): unknown => ({
      id,
      type: 'function',
      function: { name: 'look', arguments: '{}' },
    });
    const user = { role: 'user', content: 'go' };
    const turn = { role: 'assistant', content: '', tool_calls: [call('a'), call('b')] };
    const { messages } = await asked({
      messages: [user, turn, { role: 'tool', tool_call_id: 'b', content: 'B' }, user],
    });
    expect(messages.slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      { role: 'tool', tool_call_id: 'a', content: 'Error: this call has no result.' },
      user,
    ]);
    expect(await refusal({ messages: [user, { role: 'tool', tool_call_id: 'x', content: '' }] })).toMatch(
      /"x"/,
    );
  });

  test('35: images are data: URIs; other URLs are refused before the policy could fetch them', async () => {
    const image = (url: string): unknown => [
      { role: 'user', content: [{ type: 'image_url', image_url: { url } }] },
    ];
    const inline = image('data:image/png;base64,QUJD');
    expect((await asked({ messages: inline })).messages).toEqual(inline);
    expect(await refusal({ messages: image('http://10.0.0.1/x.png') })).toBe(
      'messages.0.content.0.image_url.url: must be a data: URI, other URLs are not fetched',
    );
    expect(await refusal({ messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] })).toBe(
      'messages.0.content.0.type: must be text or image_url',
    );
  });
});
