import { describe, expect, test } from 'vitest';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';

/** One call; gives back the answer's content blocks. */
async function ask(session: GatewaySession, list: readonly unknown[]): Promise<Loose[]> {
  const response = await messages(session, list);
  return ((await response.json()) as { content: Loose[] }).content;
}

const user = { role: 'user', content: 'go' };
const result = (id: string): unknown => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content: 'ok' }],
});

describe('the agent’s echo of a turn', () => {
  test('is replaced by the recorded message with the sampled argument string, under the policy’s own ids', async () => {
    const raw = '{ "file_path":"/a", "new_string" : "Q   ", "n": 5000.0, "old_string":"\\u00e9" }';
    await using vllm = await FakeVllm.start(
      sample({
        content: ' I will. ',
        reasoning: 'why',
        tools: [{ name: 'Edit', arguments: raw, id: 'functions.Edit:0' }],
      }),
      sample(),
    );
    await using opened = await openGateway(vllm.url);
    const blocks = await ask(opened.session, [user]);
    const use = blocks.find((block) => block.type === 'tool_use');
    expect(use.id).toMatch(/^toolu_[a-zA-Z0-9]+$/);
    // What the CLI makes of it: another key order, a default, stripped whitespace, no thinking.
    const echo = {
      role: 'assistant',
      content: [
        { type: 'text', text: ' I will. ' },
        { ...use, input: { replace_all: false, file_path: '/a', old_string: 'é', new_string: 'Q', n: 5000 } },
      ],
    };
    await ask(opened.session, [user, echo, result(use.id)]);
    expect(vllm.bodies[1].messages).toEqual([
      user,
      {
        role: 'assistant',
        content: ' I will. ',
        reasoning: 'why',
        tool_calls: [
          { id: 'functions.Edit:0', type: 'function', function: { name: 'Edit', arguments: raw } },
        ],
      },
      { role: 'tool', tool_call_id: 'functions.Edit:0', content: 'ok' },
    ]);
    const [first, second] = await opened.session.finish();
    expect(first!.new_messages).toEqual([user]);
    // The answer is not told twice: only what the agent added.
    expect(second!.new_messages).toEqual([{ role: 'tool', tool_call_id: use.id, content: 'ok' }]);
  });

  test('tool ids that the policy uses again are different ones to the agent', async () => {
    const again = sample({ tools: [{ name: 'Bash', arguments: '{}', id: '0' }] });
    await using vllm = await FakeVllm.start(again, again, sample());
    await using opened = await openGateway(vllm.url);
    const [first] = await ask(opened.session, [user]);
    const history = [user, { role: 'assistant', content: [first] }, result(first.id)];
    const [second] = await ask(opened.session, history);
    expect(second.id).not.toBe(first.id);
    await ask(opened.session, [...history, { role: 'assistant', content: [second] }, result(second.id)]);
    const sent = vllm.bodies[2].messages.filter((message: Loose) => message.role === 'tool');
    expect(sent.map((message: Loose) => message.tool_call_id)).toEqual(['0', '0']);
  });

  test('a text turn is found by its place and text, and gets its reasoning and whitespace back', async () => {
    await using vllm = await FakeVllm.start(sample({ content: '\n\nDone.', reasoning: 'hm' }), sample());
    await using opened = await openGateway(vllm.url);
    await ask(opened.session, [user]);
    const echo = { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] };
    await ask(opened.session, [user, echo, { role: 'user', content: 'more' }]);
    expect(vllm.bodies[1].messages[1]).toEqual({ role: 'assistant', content: '\n\nDone.', reasoning: 'hm' });
  });

  test('a turn that the agent rewrote is sent as it wrote it, but for our argument strings', async () => {
    await using vllm = await FakeVllm.start(
      sample({ content: 'a', tools: [{ name: 'Bash', arguments: '{"x" : 1}' }] }),
      sample(),
    );
    await using opened = await openGateway(vllm.url);
    const [, use] = await ask(opened.session, [user]);
    const echo = {
      role: 'assistant',
      content: [
        { type: 'text', text: 'other' },
        { ...use, input: { x: 1 } },
      ],
    };
    await ask(opened.session, [user, echo, result(use.id)]);
    expect(vllm.bodies[1].messages[1]).toMatchObject({
      content: 'other',
      tool_calls: [{ function: { arguments: '{"x" : 1}' } }],
    });
  });

  test('arguments that are no JSON object are sent as a valid stand-in, always the same', async () => {
    const raw = '{"command": "echo';
    await using vllm = await FakeVllm.start(sample({ tools: [{ name: 'Bash', arguments: raw }] }), sample());
    await using opened = await openGateway(vllm.url);
    const [use] = await ask(opened.session, [user]);
    expect(use.input).toEqual({ raw });
    const wrapped = { __unparsedToolInput: { raw, len: raw.length } };
    const history = [user, { role: 'assistant', content: [{ ...use, input: wrapped }] }, result(use.id)];
    await ask(opened.session, history);
    await ask(opened.session, [...history, { role: 'user', content: 'again' }]);
    const sent = vllm.bodies.slice(1).map((body) => body.messages[1].tool_calls[0].function.arguments);
    expect(sent).toEqual([JSON.stringify({ raw }), JSON.stringify({ raw })]);
    const records = await opened.session.finish();
    expect(records[0]!.answer).toMatchObject({ tool_calls: [{ function: { arguments: raw } }] });
  });
});

describe('system messages in mid-conversation', () => {
  const list = [
    user,
    { role: 'system', content: 'note' },
    { role: 'assistant', content: 'a' },
    { role: 'user', content: 'b' },
  ];

  test('stay in place where the template keeps them (case 21)', async () => {
    await using vllm = await FakeVllm.start();
    vllm.tokenize = ({ messages: given }) => ({
      count: given.length,
      tokens: given.map((_: unknown, at: number) => at),
    });
    await using opened = await openGateway(vllm.url);
    await ask(opened.session, list);
    expect(vllm.bodies[0].messages[1]).toEqual({ role: 'system', content: 'note' });
  });

  test('are folded into the message before them where it refuses, drops or hoists them', async () => {
    const hoists = (given: Loose[]): number[] => (given.length > 1 ? [9, 1, 2] : [1]);
    for (const tokenize of [
      ({ messages: given }: Loose) => (given.length > 1 ? null : { count: 1, tokens: [1] }),
      () => ({ count: 1, tokens: [1] }),
      ({ messages: given }: Loose) => ({ count: 3, tokens: hoists(given) }),
    ]) {
      await using vllm = await FakeVllm.start();
      vllm.tokenize = tokenize;
      await using opened = await openGateway(vllm.url);
      await ask(opened.session, list);
      expect(vllm.bodies[0].messages).toEqual([
        { role: 'user', content: 'go\n\nnote' },
        { role: 'assistant', content: 'a' },
        { role: 'user', content: 'b' },
      ]);
      // What is recorded is what the agent said.
      expect((await opened.session.finish())[0]!.new_messages).toHaveLength(4);
    }
  });
});
