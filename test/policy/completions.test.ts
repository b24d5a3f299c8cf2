import { expect, it } from 'vitest';
import { encodeText } from '../../src/policy/tokenizer.ts';
import { ask, policyWith, post, stream, tools, turns, type Reply } from './support.ts';

const path = '/v1/completions';
const captured = { logprobs: true, return_token_ids: true, seed: 3 };
const chat = { messages: ask, tools, ...captured };
/** The same wishes, as this route words them. */
const wishes = { logprobs: 0, return_token_ids: true, seed: 3, max_tokens: 500, skip_special_tokens: false };
const written =
  '<think>Look first.</think>Let me see.<tool_call>Bash\n{"command": "ls"}</tool_call>' +
  '<tool_call>Bash\n{"command":"pwd"</tool_call>';

async function promptOf(policy: Awaited<ReturnType<typeof policyWith>>): Promise<number[]> {
  return (await post(policy, { messages: ask, tools }, '/tokenize')).body.tokens as number[];
}

it('samples from ids what the chat route samples from the messages they came from', async () => {
  await using policy = await policyWith(turns);
  const spoken = (await post(policy, chat)).body;
  const { prompt_token_ids: prompt } = spoken;
  const { status, body } = await post(policy, { prompt, model: policy.model, ...wishes }, path);
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: 'text_completion', usage: spoken.usage });
  expect(body.id).toMatch(/^cmpl-/);
  const [choice] = body.choices;
  expect(choice).toMatchObject({
    index: 0,
    text: written,
    token_ids: spoken.choices[0].token_ids,
    prompt_token_ids: prompt,
    finish_reason: 'stop',
    stop_reason: null,
  });
  const entries = spoken.choices[0].logprobs.content as { token: string; logprob: number }[];
  expect(choice.logprobs.tokens).toEqual(entries.map(({ token }) => token));
  expect(choice.logprobs.token_logprobs).toEqual(entries.map(({ logprob }) => logprob));
  expect(choice.logprobs.top_logprobs).toEqual(entries.map(({ token, logprob }) => ({ [token]: logprob })));
  const [first, second] = choice.logprobs.text_offset;
  expect([first, second]).toEqual([0, entries[0]!.token.length]);
  expect(policy.samples().map(({ token_ids }) => token_ids)).toEqual([choice.token_ids, choice.token_ids]);
  expect(policy.samples()[1]).toMatchObject({ id: body.id, script: 'Task A', prompt_token_ids: prompt });
});

it('takes text, a list of one prompt, and ids behind a hostile template alike', async () => {
  await using policy = await policyWith(turns, { template: 'hostile' });
  const ids = await promptOf(policy);
  const { prompt: text } = (await post(policy, { tokens: ids }, '/detokenize')).body;
  for (const prompt of [ids, [ids], text, [text]]) {
    const { body } = await post(policy, { prompt, ...wishes }, path);
    expect(body.choices[0]).toMatchObject({ prompt_token_ids: ids, text: written });
  }
});

it('goes on with the script from recorded ids, and the chat route after it', async () => {
  await using policy = await policyWith(turns);
  const prompt = await promptOf(policy);
  const [first] = (await post(policy, { prompt, ...wishes }, path)).body.choices;
  const result = '\n<|im_start|>tool\n<tool_response>ok</tool_response><|im_end|>\n<|im_start|>assistant\n';
  const tail = (await post(policy, { prompt: result }, '/tokenize')).body.tokens;
  const chain = [...prompt, ...first.token_ids, ...tail];
  expect((await post(policy, { prompt: chain, ...wishes }, path)).body.choices[0].text).toBe(
    'Everything is done.',
  );
  // The message that a client reads out of the text is remembered like one of the chat route.
  const { message } = (await post(policy, chat)).body.choices[0];
  const next = await post(policy, {
    ...chat,
    messages: [...ask, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'ok' }],
  });
  expect(next.body.prompt_token_ids).toEqual(chain);
});

it('hides special tokens unless told not to, and shows nothing that was not asked for', async () => {
  await using policy = await policyWith(turns);
  const { body } = await post(policy, { prompt: await promptOf(policy), max_tokens: 500 }, path);
  expect(body.choices[0]).toMatchObject({
    text: written.replaceAll(/<\/?(think|tool_call)>/g, ''),
    logprobs: null,
    token_ids: null,
    prompt_token_ids: null,
  });
});

it('samples 16 tokens unless told otherwise, and stops at strings in the markup too', async () => {
  await using policy = await policyWith(turns);
  const prompt = await promptOf(policy);
  const short = (await post(policy, { prompt, return_token_ids: true }, path)).body.choices[0];
  expect(short).toMatchObject({ finish_reason: 'length' });
  expect(short.token_ids).toHaveLength(16);
  const stopped = (await post(policy, { prompt, ...wishes, stop: ['</tool_call>'] }, path)).body.choices[0];
  expect(stopped).toMatchObject({ finish_reason: 'stop', stop_reason: '</tool_call>' });
  expect(stopped.text).toBe(written.slice(0, written.indexOf('</tool_call>')));
});

it('lists as many likely tokens as asked, the sampled one among them', async () => {
  await using policy = await policyWith(turns, { splitRate: 0.7 });
  const prompt = await promptOf(policy);
  const { logprobs } = (await post(policy, { prompt, ...wishes, logprobs: 2 }, path)).body.choices[0];
  logprobs.tokens.forEach((token: string, at: number) => {
    const top = Object.entries(logprobs.top_logprobs[at] as Record<string, number>);
    expect(Object.fromEntries(top)[token]).toBe(logprobs.token_logprobs[at]);
    const likelier = top.filter(([, logprob]) => logprob > logprobs.token_logprobs[at]).length;
    expect(top.length).toBeLessThanOrEqual(likelier >= 2 ? 3 : 2);
  });
  const spelled = await post(policy, { prompt, ...wishes, return_tokens_as_token_ids: true }, path);
  const [choice] = spelled.body.choices;
  expect(choice.logprobs.tokens).toEqual(choice.token_ids.map((id: number) => `token_id:${id}`));
});

it('streams the same, the ids of the prompt on the first chunk and the usage on the last', async () => {
  await using policy = await policyWith([{ text: 'é😀 and more', tool_calls: [{ name: 'Bash' }] }]);
  const body = { prompt: await promptOf(policy), ...wishes };
  const [whole] = (await post(policy, body, path)).body.choices;
  const streamed = await stream(policy, { ...body, stream_options: { include_usage: true } }, path);
  expect(streamed.done).toBe(true);
  const usage = streamed.chunks.pop();
  expect(usage).toMatchObject({ choices: [], usage: { completion_tokens: whole.token_ids.length } });
  const parts = streamed.chunks.map((chunk) => chunk.choices[0]);
  expect(parts.map((part) => part.prompt_token_ids)).toEqual([
    body.prompt,
    ...parts.slice(1).map(() => null),
  ]);
  expect(parts.flatMap((part) => part.token_ids)).toEqual(whole.token_ids);
  expect(parts.map((part) => part.text).join('')).toBe(whole.text);
  expect(parts.flatMap((part) => part.logprobs.token_logprobs)).toEqual(whole.logprobs.token_logprobs);
  expect(parts.at(-1)).toMatchObject({ finish_reason: 'stop', stop_reason: null });
  const bare = await stream(policy, { prompt: body.prompt }, path);
  expect(bare.chunks[0].choices[0]).toMatchObject({
    token_ids: null,
    logprobs: null,
    prompt_token_ids: null,
  });
});

it.each([
  ['a prompt in which no turn is open', { prompt: [257, 258] }, 400, 'prompt'],
  ['an empty prompt', { prompt: [] }, 400, 'empty'],
  ['several prompts', { prompt: ['a', 'b'] }, 400, 'more than one prompt'],
  ['an id that no token has', { prompt: [9_999_999] }, 400, 'out of vocabulary'],
  ['no prompt', { prompt: undefined }, 400, 'prompt'],
  ['another model', { model: 'other' }, 404, 'The model `other` does not exist.'],
  ['too many logprobs', { logprobs: 21 }, 400, 'greater than max allowed: 20'],
  ['no tokens', { max_tokens: 0 }, 400, 'max_tokens must be at least 1'],
  ['a prompt echoed', { echo: true }, 400, 'echo'],
  ['text behind the answer', { suffix: 'x' }, 400, 'suffix'],
  ['guided decoding', { guided_json: {} }, 400, 'guided_json'],
])('refuses %s', async (_name, change, status, words) => {
  await using policy = await policyWith(turns);
  const reply = await post(policy, { prompt: await promptOf(policy), ...wishes, ...change }, path);
  expect(reply.status).toBe(status);
  expect(reply.body.error.message).toContain(words);
});

it("refuses what is too long in the engine's words", async () => {
  await using policy = await policyWith(turns, { maxModelLen: 300 });
  const prompt = await promptOf(policy);
  const long = [...encodeText('x '.repeat(400)), ...prompt];
  const word = async (body: Record<string, unknown>): Promise<string> =>
    (await post(policy, body, path)).body.error.message as string;
  expect(await word({ prompt, max_tokens: 300 })).toMatch(
    /'max_tokens' or .* is too large: 300\. .* 300 tokens/,
  );
  expect(await word({ prompt: long })).toMatch(
    /maximum context length is 300 tokens\. However, .* input tokens/,
  );
});

it('does the faults of the chat route, and asks for its key', async () => {
  await using policy = await policyWith(turns, { apiKey: 'k' });
  const headers = { authorization: 'Bearer k' };
  const body = { prompt: await promptOf(policy), ...wishes };
  const send = (change: Record<string, unknown> = {}): Promise<Response> =>
    fetch(policy.url + path, { method: 'POST', headers, body: JSON.stringify({ ...body, ...change }) });
  const choice = async (): Promise<Reply['body']> =>
    ((await (await send()).json()) as Reply['body']).choices[0];
  expect((await post(policy, body, path)).status).toBe(401);

  policy.fault({ kind: 'status', status: 429, retry_after: 1 });
  const refused = await send();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  policy.fault({ kind: 'die' });
  await expect(send().then((response) => response.text())).rejects.toThrow();
  policy.fault({ kind: 'die' });
  await expect(send({ stream: true }).then((response) => response.text())).rejects.toThrow();
  policy.fault({ kind: 'stream_error' });
  expect(await (await send({ stream: true })).text()).toMatch(/data: \{"error".*\n\ndata: \[DONE\]\n\n$/);
  policy.fault({ kind: 'hang' });
  await expect(
    fetch(policy.url + path, { method: 'POST', headers, body: '{}', signal: AbortSignal.timeout(200) }),
  ).rejects.toThrow();

  policy.fault({ kind: 'logprob', value: 'nan', position: 1 });
  expect(await (await send()).text()).toMatch(/"token_logprobs":\[[^,]*,NaN,/);
  policy.fault({ kind: 'short_ids' });
  const short = await choice();
  expect(short.token_ids).toHaveLength(short.logprobs.tokens.length - 1);
  policy.fault([{ kind: 'no_prompt_ids' }, { kind: 'no_logprobs' }, { kind: 'no_ids' }]);
  expect(await choice()).toMatchObject({ prompt_token_ids: null, logprobs: null, token_ids: null });
  policy.fault({ kind: 'abort' });
  const aborted = await choice();
  expect(aborted.finish_reason).toBe('abort');
  expect(written.startsWith(aborted.text as string)).toBe(true);
});

it('gives the text of ids on either engine, in its own words', async () => {
  await using vllm = await policyWith(turns);
  await using sglang = await policyWith(turns, { engine: 'sglang' });
  const tokens = [257, 97, 98, 258];
  expect((await post(vllm, { tokens }, '/detokenize')).body).toEqual({ prompt: '<|im_start|>ab<|im_end|>' });
  expect((await post(sglang, { tokens }, '/detokenize')).body).toEqual({ text: 'ab' });
  expect((await post(sglang, { tokens, skip_special_tokens: false }, '/detokenize')).body).toEqual({
    text: '<|im_start|>ab<|im_end|>',
  });
  expect((await post(sglang, { prompt: tokens }, path)).status).toBe(404);
});
