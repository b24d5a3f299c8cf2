import { describe, expect, test } from 'vitest';
import { historicalArguments } from '../../../src/gateway/engines/vllm-body.ts';
import { parseScripts, startScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { assistant, result, user } from '../dialects/turns.ts';
import { FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway, post } from '../support/open-gateway.ts';

/** JSON of an object of so many levels. */
const nested = (levels: number): string => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`;

const sent = (given: string): string =>
  historicalArguments({ id: 'c', type: 'function', function: { name: 'Bash', arguments: given } });

describe('the arguments of an earlier call', () => {
  test.each([[1], [256]])('go to the engine as they were sampled: %i levels', (levels) => {
    expect(sent(nested(levels))).toBe(nested(levels));
  });

  test.each([[257], [1_500], [100_000]])(
    'go as text where Python would not read them: %i levels',
    (levels) => {
      expect(JSON.parse(sent(nested(levels)))).toEqual({ raw: nested(levels) });
      const list = `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`;
      expect(JSON.parse(sent(list))).toEqual({ raw: list });
    },
  );

  test.each([[300], [3_000], [30_000]])(
    'end no later call of the agent that echoes them: %i levels',
    async (levels) => {
      const raw = nested(levels);
      const deep = sample({ tools: [{ name: 'Bash', arguments: raw }] });
      await using vllm = await FakeVllm.start(deep, sample());
      await using opened = await openGateway(vllm.url);
      const first = await messages(opened.session, 'go');
      const { content } = (await first.json()) as Loose;
      expect(content[0].input).toEqual({ raw });
      const again = await messages(opened.session, [
        user('go'),
        assistant(content),
        user([result(content[0].id as string, 'ok')]),
      ]);
      expect(again.status).toBe(200);
      expect(JSON.parse(vllm.bodies[1].messages[1].tool_calls[0].function.arguments as string)).toEqual({
        raw,
      });
    },
  );

  test('end none of an agent of the OpenAI API, or of one that streams and echoes the object', async () => {
    const raw = nested(1_200);
    const deep = sample({ tools: [{ name: 'Bash', arguments: raw }] });
    await using vllm = await FakeVllm.start(deep, sample(), deep, sample());
    await using opened = await openGateway(vllm.url);
    const chat = { model: 'm', messages: [{ role: 'user', content: 'go' }] };
    const { choices } = (await (await post(opened.session, '/v1/chat/completions', chat)).json()) as Loose;
    const [call] = choices[0].message.tool_calls;
    expect(call.function.arguments).toBe(raw);
    const history = [
      ...chat.messages,
      choices[0].message,
      { role: 'tool', tool_call_id: call.id, content: 'ok' },
    ];
    expect((await post(opened.session, '/v1/chat/completions', { ...chat, messages: history })).status).toBe(
      200,
    );

    const session = await opened.open();
    const text = await (await messages(session, 'go', { stream: true })).text();
    const id = /"id":"(toolu_[^"]+)"/.exec(text)![1]!;
    const echo = { type: 'tool_use', id, name: 'Bash', input: JSON.parse(raw) as unknown };
    const answered = await messages(session, [user('go'), assistant([echo]), user([result(id, 'ok')])]);
    expect(answered.status).toBe(200);
    for (const at of [1, 3])
      expect(JSON.parse(vllm.bodies[at].messages[1].tool_calls[0].function.arguments as string)).toEqual({
        raw,
      });
  });

  test('cost the sequence its prefix at most, and never make a token that is not true', async () => {
    const scripts = parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: [
        {
          match: 'go',
          turns: [{ tool_calls: [{ name: 'Bash', arguments: nested(1_200) }] }, { text: 'Done.' }],
        },
      ],
    });
    await using policy = await startScriptedPolicy({ scripts, seed: 5, model: 'policy' });
    await using opened = await openGateway(policy.url, {
      limits: { max_output_tokens: 32_768, context_tokens: 131_072 },
    });
    const tools = [{ name: 'Bash', input_schema: { type: 'object', properties: {} } }];
    const rest = { tools, max_tokens: 30_000 };
    const { content } = (await (await messages(opened.session, 'go', rest)).json()) as Loose;
    const history = [user('go'), assistant(content), user([result(content[0].id as string, 'ok')])];
    expect(await (await messages(opened.session, history, rest)).json()).toMatchObject({
      content: [{ text: 'Done.' }],
    });
    const { sequences } = buildSequences(await opened.session.finish());
    const samples = policy.samples();
    expect(sequences.map(({ certificate }) => certificate)).not.toContainEqual(
      expect.objectContaining({ grade: 'untrainable' }),
    );
    expect(
      sequences.flatMap(({ token_ids, turns }) => turns.map((t) => [...token_ids.slice(t.start, t.end)])),
    ).toEqual(samples.map(({ token_ids }) => token_ids));
    if (sequences.length > 1)
      expect(sequences.map(({ certificate }) => certificate.grade)).toContain('forked');
  });
});
