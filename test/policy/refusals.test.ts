import { describe, expect, it } from 'vitest';
import { ask, policyWith, post, stream, tools, turns, type Reply } from './support.ts';

const captured = { messages: ask, tools, logprobs: true, top_logprobs: 0, return_token_ids: true };

describe('what the engine refuses is refused in its words', () => {
  it('a prompt and max_tokens that do not fit', async () => {
    await using policy = await policyWith(turns, { maxModelLen: 100 });
    const short = { messages: ask };
    const { prompt_tokens: prompt } = (await post(policy, short)).body.usage;
    const { status, body } = await post(policy, { ...short, max_tokens: 100 });
    expect(status).toBe(400);
    expect(body.error).toEqual({
      message:
        `'max_tokens' or 'max_completion_tokens' is too large: 100. This model's maximum context length is 100 tokens ` +
        `and your request has ${prompt} input tokens (100 > 100 - ${prompt}). (parameter=max_tokens, value=100)`,
      type: 'BadRequestError',
      param: 'max_tokens',
      code: 400,
    });
    const long = await post(policy, { messages: [{ role: 'user', content: 'x y z '.repeat(100) }] });
    expect(long.body.error.message).toMatch(
      /^This model's maximum context length is 100 tokens\. However, your request has \d+ input tokens\./,
    );
  });

  it.each([
    ['another model', { model: 'other' }, 404, 'The model `other` does not exist.'],
    ['no messages', { messages: undefined }, 400, "'loc': ('body', 'messages')"],
    ['a temperature below zero', { temperature: -1 }, 400, 'temperature must be non-negative, got -1.'],
    ['top_p of 0', { top_p: 0 }, 400, 'top_p must be in (0, 1], got 0.'],
    ['max_tokens of 0', { max_tokens: 0 }, 400, 'max_tokens must be at least 1, got 0.'],
    ['too many top logprobs', { top_logprobs: 21 }, 400, 'which is greater than max allowed: 20'],
    [
      'top logprobs alone',
      { logprobs: false, top_logprobs: 2 },
      400,
      'when using `top_logprobs`, `logprobs` must',
    ],
    [
      'a choice among no tools',
      { tools: undefined, tool_choice: 'auto' },
      400,
      'When using `tool_choice`, `tools`',
    ],
    [
      'stream options without a stream',
      { stream_options: {} },
      400,
      'Stream options can only be defined when',
    ],
    [
      'an image',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] },
      400,
      'At most 0 image(s) may be provided in one prompt.',
    ],
    [
      'what it cannot do truly',
      { min_tokens: 5 },
      400,
      'min_tokens is not supported by the scripted policy.',
    ],
    [
      'a call the script has not',
      { tool_choice: { type: 'function', function: { name: 'X' } } },
      400,
      'tool_choice:',
    ],
  ])('%s', async (_name, change, status, words) => {
    await using policy = await policyWith(turns);
    const reply = await post(policy, { ...captured, ...change });
    expect(reply.status).toBe(status);
    expect(reply.body.error.message).toContain(words);
    expect(reply.body.error.code).toBe(status);
    expect(policy.samples()).toEqual([]);
  });

  it('a broken body, an unknown path, and a wrong key on /v1 alone', async () => {
    await using policy = await policyWith(turns, { apiKey: 'secret' });
    const url = `${policy.url}/v1/chat/completions`;
    expect((await fetch(url, { method: 'POST', body: '{' })).status).toBe(401);
    const headers = { authorization: 'Bearer secret' };
    expect((await fetch(url, { method: 'POST', body: '{', headers })).status).toBe(400);
    expect((await fetch(`${policy.url}/v1/nothing`, { headers })).status).toBe(404);
    expect((await fetch(`${policy.url}/health`)).status).toBe(200);
    const models = await (await fetch(`${policy.url}/v1/models`, { headers })).json();
    expect(models).toMatchObject({ data: [{ id: 'scripted', max_model_len: 32768 }] });
  });

  it('a late system message under the hostile template', async () => {
    await using policy = await policyWith(turns, { template: 'hostile' });
    const reply = await post(policy, { messages: [...ask, { role: 'system', content: 'Note.' }] });
    expect(reply.status).toBe(400);
    expect(reply.body.error).toEqual({
      message: 'System message must be at the beginning.',
      type: 'BadRequestError',
      param: null,
      code: 400,
    });
  });
});

it('tokenises a prompt or a conversation as the chat route does, and gives text back', async () => {
  await using policy = await policyWith(turns);
  const chat = (await post(policy, captured)).body;
  const counted = (await post(policy, { messages: ask, tools }, '/tokenize')).body;
  expect(counted).toMatchObject({
    tokens: chat.prompt_token_ids,
    count: chat.usage.prompt_tokens,
    max_model_len: 32768,
  });
  const text = (await post(policy, { tokens: counted.tokens }, '/detokenize')).body.prompt;
  expect((await post(policy, { prompt: text }, '/tokenize')).body.tokens.length).toBeGreaterThan(0);
  expect(text).toContain('<tools>\n{"type": "function", "function": {"name": "Bash"');
});

describe('a fault that was asked for', () => {
  it('is a status for so many calls, and over then', async () => {
    await using policy = await policyWith(turns);
    policy.fault({ kind: 'status', status: 429, times: 2, retry_after: 1 });
    const replies = [
      await post(policy, captured),
      await post(policy, captured),
      await post(policy, captured),
    ];
    expect(replies.map(({ status }) => status)).toEqual([429, 429, 200]);
    expect(replies[0]?.headers.get('retry-after')).toBe('1');
  });

  it.each([
    ['short_ids', {}, (body: Reply['body']) => body.choices[0].token_ids.length, -1],
    ['usage', { by: 2 }, (body: Reply['body']) => body.usage.completion_tokens, 2],
    ['logprob', { value: 'missing' }, (body: Reply['body']) => body.choices[0].logprobs.content.length, -1],
  ])('%s leaves numbers that do not agree', async (kind, detail, count, by) => {
    await using policy = await policyWith(turns, { splitRate: 0 });
    const sound = (await post(policy, captured)).body;
    await post(policy, { kind, ...detail }, '/__faults');
    expect(count((await post(policy, captured)).body)).toBe(count(sound) + by);
  });

  it.each([
    ['null', null],
    ['default', -9999],
    ['positive', 0.5],
  ])('logprob %s stands at its place', async (value, found) => {
    await using policy = await policyWith(turns);
    await post(policy, { kind: 'logprob', value, position: 3 }, '/__faults');
    expect((await post(policy, captured)).body.choices[0].logprobs.content[3].logprob).toBe(found);
  });

  it('a NaN is the bare word of Python', async () => {
    await using policy = await policyWith(turns);
    policy.fault({ kind: 'logprob', value: 'nan', position: -1 });
    const response = await fetch(`${policy.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(captured),
    });
    expect(await response.text()).toContain('"logprob":NaN');
  });

  it.each(['no_logprobs', 'no_ids', 'no_prompt_ids'] as const)('%s leaves them out', async (kind) => {
    await using policy = await policyWith(turns);
    policy.fault({ kind });
    const { body } = await post(policy, captured);
    expect([body.choices[0].logprobs, body.choices[0].token_ids, body.prompt_token_ids]).toContain(null);
  });

  it('abort gives half an answer', async () => {
    await using policy = await policyWith(turns);
    policy.fault({ kind: 'abort' });
    const { body } = await post(policy, captured);
    expect(body.choices[0].finish_reason).toBe('abort');
    expect(body.choices[0].token_ids).toHaveLength(body.usage.completion_tokens);
    expect(policy.samples()[0]?.finish_reason).toBe('abort');
  });

  it('cuts the connection, or ends a stream with an error and [DONE]', async () => {
    await using policy = await policyWith(turns);
    policy.fault({ kind: 'die', times: 2 });
    await expect(post(policy, captured)).rejects.toThrow();
    await expect(stream(policy, captured)).rejects.toThrow();
    policy.fault({ kind: 'stream_error' });
    const { chunks, done } = await stream(policy, captured);
    expect(done).toBe(true);
    expect(chunks.at(-1)).toMatchObject({ error: { code: 500 } });
  });

  it('hangs until the client leaves, or answers later', async () => {
    await using policy = await policyWith(turns);
    policy.fault([{ kind: 'hang' }, { kind: 'hang', headers: true }]);
    for (let call = 0; call < 2; call += 1) {
      const gone = fetch(`${policy.url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify(captured),
        // Long enough for the call to have come: the next one is to meet the next fault.
        signal: AbortSignal.timeout(500),
      }).then((response) => response.text());
      await expect(gone).rejects.toThrow();
    }
    policy.fault({ kind: 'slow', ms: 150 });
    const started = performance.now();
    expect((await post(policy, captured)).status).toBe(200);
    expect(performance.now() - started).toBeGreaterThan(140);
  });

  it('of no known kind is refused', async () => {
    await using policy = await policyWith(turns);
    expect((await post(policy, { kind: 'nonsense' }, '/__faults')).status).toBe(400);
    expect(() => policy.fault({ kind: 'status', status: 99 })).toThrow('faults: ');
  });
});

it('a port that is taken, or a log that cannot be written, is told at start', async () => {
  await using policy = await policyWith(turns);
  await expect(policyWith(turns, { port: policy.port })).rejects.toThrow(
    `cannot listen on 127.0.0.1:${policy.port} (EADDRINUSE)`,
  );
  await expect(policyWith(turns, { samplesLog: '/nowhere/log' })).rejects.toThrow(
    'cannot write the samples log /nowhere/log (ENOENT)',
  );
});
