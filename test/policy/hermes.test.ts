import { expect, it } from 'vitest';
import { formatOfRendering } from '../../src/gateway/engines/call-formats/format-of-rendering.ts';
import { parseGeneratedText } from '../../src/gateway/engines/generated-text.ts';
import { ask, policyWith, post, stream, tools } from './support.ts';

const hermes = { callFormat: 'hermes' as const };
const script = [
  {
    text: 'I look.',
    tool_calls: [
      { name: 'Bash', arguments: '{"command":"ls \\u00e9 }"}' },
      { name: 'Bash', arguments: {} },
    ],
  },
  { text: 'Done.' },
];
const request = { messages: ask, tools, return_token_ids: true, seed: 3 };
const written =
  'I look.<tool_call>\n{"name": "Bash", "arguments": {"command":"ls \\u00e9 }"}}\n</tool_call>' +
  '<tool_call>\n{"name": "Bash", "arguments": {}}\n</tool_call>';

const called = (calls: { function: { arguments: string } }[]): string[] =>
  calls.map((call) => call.function.arguments);

it('writes its calls as JSON, parses them as the engine does, and streams them as they are written', async () => {
  await using policy = await policyWith(script, hermes);
  const { body } = await post(policy, request);
  const [choice] = body.choices;
  expect(choice.finish_reason).toBe('tool_calls');
  expect(choice.message.content).toBe('I look.');
  // Arguments come out of the engine's parser dumped anew.
  expect(called(choice.message.tool_calls)).toEqual(['{"command": "ls é }"}', '{}']);
  const { chunks } = await stream(policy, request);
  const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
  const given = (index: number): string => called(deltas.filter((delta) => delta.index === index)).join('');
  expect([given(0), given(1)]).toEqual(['{"command":"ls \\u00e9 }"}', '{}']);
  expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe('I look.');

  const prompt = body.prompt_token_ids;
  const raw = await post(
    policy,
    { prompt, max_tokens: 500, seed: 3, return_token_ids: true, skip_special_tokens: false },
    '/v1/completions',
  );
  expect(raw.body.choices[0]).toMatchObject({ text: written, token_ids: choice.token_ids });
});

it('keeps the prefix of what it delivered, from either route', async () => {
  await using policy = await policyWith(script, hermes);
  const { prompt_token_ids: prompt, choices } = (await post(policy, request)).body;
  const chain = [...prompt, ...choices[0].token_ids];
  const results = choices[0].message.tool_calls.map((call: { id: string }) => ({
    role: 'tool',
    tool_call_id: call.id,
    content: 'ok',
  }));
  const { text } = (
    await post(policy, { prompt, max_tokens: 500, seed: 3, skip_special_tokens: false }, '/v1/completions')
  ).body.choices[0];
  const read = parseGeneratedText(
    text as string,
    [{ type: 'function', function: { name: 'Bash', parameters: {} } }],
    'hermes',
  );
  const message = {
    role: 'assistant',
    content: read.content,
    tool_calls: read.tool_calls.map((call, at) => ({
      id: results[at].tool_call_id,
      type: 'function',
      function: { name: call.name, arguments: call.arguments },
    })),
  };
  for (const said of [choices[0].message, message]) {
    const next = (await post(policy, { ...request, messages: [...ask, said, ...results] })).body;
    expect(next.prompt_token_ids.slice(0, chain.length)).toEqual(chain);
    expect(next.choices[0].message.content).toBe('Done.');
  }
});

it('makes text of calls that are no JSON or that are cut, given whole', async () => {
  await using policy = await policyWith([{ tool_calls: [{ name: 'Bash', arguments: '{"a' }] }], {
    ...hermes,
    splitRate: 0,
  });
  const message = (await post(policy, request)).body.choices[0].message;
  expect(message.tool_calls).toEqual([]);
  expect(message.content).toBe('<tool_call>\n{"name": "Bash", "arguments": {"a}\n</tool_call>');
  const cut = (await post(policy, { ...request, max_tokens: 5 })).body.choices[0];
  expect(cut).toMatchObject({ finish_reason: 'length', message: { tool_calls: [] } });
  expect(cut.message.content).toMatch(/^<tool_call>\n\{"name/);
});

it.each([
  ['line', 'plain'],
  ['hermes', 'plain'],
  ['line', 'hostile'],
  ['hermes', 'hostile'],
] as const)('shows how it writes calls to who renders one: %s, %s', async (callFormat, template) => {
  await using policy = await policyWith(script, { callFormat, template });
  const look = { name: 'look', arguments: '{"at": "here"}' };
  const messages = [
    ...ask,
    { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: look }] },
    { role: 'tool', tool_call_id: 'a', content: 'A room.' },
  ];
  for (const listed of [{}, { tools }]) {
    const { tokens } = (await post(policy, { messages, ...listed }, '/tokenize')).body;
    const { prompt } = (await post(policy, { tokens }, '/detokenize')).body;
    expect(formatOfRendering(prompt as string)).toBe('hermes');
    expect(prompt.includes('{"name": "look"')).toBe(callFormat === 'hermes');
  }
});
