import { expect, it } from 'vitest';
import { until } from '../support/wait.ts';
import { ask, policyWith, post, tools, turns } from './support.ts';

const sglang = { engine: 'sglang' as const };
const everything = {
  messages: ask,
  tools,
  logprobs: true,
  return_token_ids: true,
  return_meta_info: true,
  seed: 3,
};

it('gives ids and their logprobs with each choice of a chat, and only those asked for', async () => {
  await using policy = await policyWith(turns, sglang);
  const { body } = await post(policy, { ...everything, rid: 'r-1' });
  const [sampled] = policy.samples();
  const [choice] = body.choices;
  expect(body.id).toBe('r-1');
  expect(body.prompt_token_ids).toBeUndefined();
  expect(choice.prompt_token_ids).toEqual(sampled!.prompt_token_ids);
  expect(choice.token_ids).toEqual(sampled!.token_ids);
  expect(choice.meta_info.output_token_logprobs).toEqual(
    sampled!.token_ids.map((id, at) => [sampled!.logprobs[at], id, null]),
  );
  expect(choice).toMatchObject({ finish_reason: 'tool_calls', matched_stop: 258 });
  expect(body.metadata).toEqual({ weight_version: 'default' });
  const bare = (await post(policy, { messages: ask })).body.choices[0];
  expect(Object.keys(bare).sort()).toEqual(['finish_reason', 'index', 'logprobs', 'matched_stop', 'message']);
});

it('samples the same from ids as from the messages they came from', async () => {
  await using policy = await policyWith(turns, sglang);
  const chat = (await post(policy, everything)).body.choices[0];
  const generate = async (prompt: Record<string, unknown>): Promise<unknown> => {
    const sampling_params = { max_new_tokens: 500, sampling_seed: 3 };
    return (await post(policy, { ...prompt, sampling_params, return_logprob: true }, '/generate')).body;
  };
  const fromIds = await generate({ input_ids: chat.prompt_token_ids });
  expect(fromIds).toMatchObject({
    output_ids: chat.token_ids,
    meta_info: {
      finish_reason: { type: 'stop', matched: 258 },
      prompt_tokens: chat.prompt_token_ids.length,
      completion_tokens: chat.token_ids.length,
      output_token_logprobs: chat.meta_info.output_token_logprobs,
    },
  });
  const { text } = (
    await post(policy, { tokens: chat.prompt_token_ids, skip_special_tokens: false }, '/detokenize')
  ).body;
  expect(await generate({ text })).toMatchObject({ output_ids: chat.token_ids });
});

it('says in meta_info how an answer of ids ended: at a stop string, at the limit', async () => {
  await using policy = await policyWith([{ text: 'one two three four' }], sglang);
  const { prompt_token_ids: input_ids } = (await post(policy, { ...everything, tools: undefined })).body
    .choices[0];
  const generate = async (sampling_params: Record<string, unknown>): Promise<unknown> =>
    (await post(policy, { input_ids, sampling_params }, '/generate')).body;
  expect(await generate({ max_new_tokens: 99, stop: ['three'] })).toMatchObject({
    text: 'one two ',
    meta_info: { finish_reason: { type: 'stop', matched: 'three' } },
  });
  expect(await generate({ max_new_tokens: 2 })).toMatchObject({
    meta_info: { finish_reason: { type: 'length', length: 2 } },
  });
});

it('gives what it has of a call that is aborted by its id', async () => {
  await using policy = await policyWith(turns, { ...sglang, tokenMs: 2_000 });
  const answer = post(policy, { ...everything, rid: 'r-2' });
  await until(() => policy.samples().length === 1, 'the call is sampled');
  await post(policy, { rid: 'r-2' }, '/abort_request');
  const { body } = await answer;
  expect(policy.aborts()).toEqual(['r-2']);
  expect(body.choices[0].finish_reason).toBe('abort');
  expect(body.choices[0].token_ids).toHaveLength(body.usage.completion_tokens);
  expect(body.choices[0].token_ids.length).toBeLessThan(policy.samples()[0]!.token_ids.length);
});

const call = (given: string): unknown => ({
  role: 'assistant',
  content: '',
  tool_calls: [{ id: 'a', type: 'function', function: { name: 'Bash', arguments: given } }],
});

it.each([
  ['ids in a stream', { stream: true }, 400, 'stream'],
  [
    'arguments that are no JSON',
    { messages: [...ask, call('{"a')] },
    400,
    'Assistant tool call function.arguments must be valid JSON.',
  ],
  ['empty arguments', { messages: [...ask, call('')] }, 400, 'must be valid JSON.'],
  ['arguments that are no object', { messages: [...ask, call('null')] }, 400, 'must be a JSON object.'],
  ['another model', { model: 'other' }, 404, 'The model `other` does not exist.'],
])('refuses %s, with the error at the root', async (_name, change, status, words) => {
  await using policy = await policyWith(turns, sglang);
  const reply = await post(policy, { ...everything, ...change });
  expect(reply.status).toBe(status);
  expect(reply.body).toMatchObject({ object: 'error', code: status });
  expect(reply.body.message).toContain(words);
});

it('refuses a prompt of ids in which no turn is open, and messages to tokenize', async () => {
  await using policy = await policyWith(turns, sglang);
  for (const input_ids of [[1, 2, 3], [257, 258], [257]]) {
    expect((await post(policy, { input_ids }, '/generate')).status).toBe(400);
  }
  expect((await post(policy, { messages: ask }, '/tokenize')).status).toBe(400);
  expect((await post(policy, { prompt: 'ab' }, '/tokenize')).status).toBe(200);
});
