import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseMessagesRequest } from '../../../src/gateway/dialects/anthropic/request.ts';
import { FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { asked, askedMessages, refusal } from './through-gateway.ts';
import { assistant, png, pngPart, result, text, use, user } from './turns.ts';

/** The second message that the policy is given for an assistant turn of these blocks. */
const turn = async (blocks: readonly unknown[]): Promise<Loose> =>
  (await askedMessages([user('a'), assistant(blocks), user('b')]))[1];

describe('assistant turns in the history', () => {
  test('24: thinking is reasoning, verbatim and apart from the text; its signature is nothing', async () => {
    const thinking = { type: 'thinking', thinking: ' hm \n', signature: 'any' };
    expect(await turn([thinking, text('so')])).toEqual({
      role: 'assistant',
      content: 'so',
      reasoning: ' hm \n',
    });
    expect(await turn([{ ...thinking, signature: '' }])).toMatchObject({ reasoning: ' hm \n', content: '' });
  });

  test('25: redacted thinking is taken and has no text', async () => {
    expect(await turn([{ type: 'redacted_thinking', data: 'x' }, text('so')])).toEqual({
      role: 'assistant',
      content: 'so',
    });
  });

  test('29: one at the end is a beginning that the policy goes on with', async () => {
    const body = await asked([user('a'), assistant('{"answer":')]);
    expect(body).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
    expect(body.messages.at(-1)).toEqual({ role: 'assistant', content: '{"answer":' });
    expect(await asked([user('a')])).not.toHaveProperty('continue_final_message');
    // One that ends in calls is over: the results that are missing are made up, and it is the policy's turn.
    const called = await asked([user('a'), assistant([use('t')])]);
    expect(called).not.toHaveProperty('continue_final_message');
    expect(called.messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 't' });
  });

  test('30: one of tool calls alone has null content, one without anything is left out', async () => {
    expect(await turn([text(''), use('t')])).toMatchObject({ content: null, tool_calls: [{ id: 't' }] });
    for (const nothing of [[text('')], [], '']) {
      const list = await askedMessages([user('a'), assistant(nothing), user('b')]);
      expect(list.map(({ content }) => content as string)).toEqual(['a', 'b']);
    }
  });

  test('31: two in a row are one; user turns in a row stay apart, and any role may come first', async () => {
    const list = [
      assistant('x'),
      assistant([text('y'), use('t')]),
      user([result('t', 'r')]),
      user('b'),
      user('c'),
    ];
    expect(await askedMessages(list)).toMatchObject([
      { role: 'assistant', content: 'xy', tool_calls: [{ id: 't' }] },
      { role: 'tool', content: 'r' },
      { role: 'user', content: 'b' },
      { role: 'user', content: 'c' },
    ]);
  });

  test('32: inputs are JSON in the order they came; null and nothing are {}', async () => {
    const given = async (input: unknown): Promise<unknown> =>
      (await turn([use('t', input)])).tool_calls[0].function.arguments as unknown;
    expect(await given({ b: 1, a: { d: [2], c: 'é' } })).toBe('{"b":1,"a":{"d":[2],"c":"é"}}');
    expect(await given(null)).toBe('{}');
    expect(await given(undefined)).toBe('{}');
    expect(await given('')).toBe('{}');
  });

  test('32: what is no object was sampled so, and is wrapped for the policy, never refused', async () => {
    const given = async (input: unknown): Promise<unknown> =>
      (await turn([use('t', input)])).tool_calls[0].function.arguments as unknown;
    expect(await given([1])).toBe('{"raw":"[1]"}');
    expect(await given('text')).toBe(JSON.stringify({ raw: '"text"' }));
    expect(await given({ __unparsedToolInput: { raw: '{"a', len: 3 } })).toBe(JSON.stringify({ raw: '{"a' }));
  });

  test('32: the argument string that was sampled goes back to the policy, not the agent’s echo of it', async () => {
    const raw = '{ "b" : 5000.0,"a":"\\u00e9" }';
    await using vllm = await FakeVllm.start(sample({ tools: [{ name: 'Edit', arguments: raw }] }), sample());
    await using opened = await openGateway(vllm.url);
    const { content } = (await (await messages(opened.session, 'go')).json()) as Loose;
    const echo = [{ ...content[0], input: { a: 'é', b: 5000, all: false } }];
    await messages(opened.session, [user('go'), assistant(echo), user([result(content[0].id, 'ok')])]);
    expect(vllm.bodies[1].messages[1].tool_calls[0].function.arguments).toBe(raw);
  });

  test('37: half a surrogate that was sampled as an escape ends no later call', async () => {
    const raw = '{"a":"\\ud83d","b":"\\ud83d\\ude00"}';
    await using vllm = await FakeVllm.start(sample({ tools: [{ name: 'Edit', arguments: raw }] }), sample());
    await using opened = await openGateway(vllm.url);
    const { content } = (await (await messages(opened.session, 'go')).json()) as Loose;
    await messages(opened.session, [user('go'), assistant(content), user([result(content[0].id, 'ok')])]);
    const sent = vllm.bodies[1].messages[1].tool_calls[0].function.arguments as string;
    expect(JSON.parse(sent)).toEqual({ a: '\uFFFD', b: '😀' });
    expect((await opened.session.finish())[0]!.answer).toMatchObject({
      tool_calls: [{ function: { arguments: raw } }],
    });
  });

  test('33: ids are ours, unique and plain whatever the policy gives, and go back as the policy’s own', async () => {
    const same = sample({
      tools: [
        { name: 'Bash', arguments: '{}', id: 'functions.Bash:0' },
        { name: 'Bash', arguments: '{}', id: '' },
      ],
    });
    await using vllm = await FakeVllm.start(same, same, sample());
    await using opened = await openGateway(vllm.url);
    const list: unknown[] = [user('go')];
    const ids: string[] = [];
    for (let turns = 0; turns < 2; turns++) {
      const { content } = (await (await messages(opened.session, list)).json()) as Loose;
      ids.push(...content.map(({ id }: Loose) => id as string));
      list.push(assistant(content), user(content.map(({ id }: Loose) => result(id as string, 'ok'))));
    }
    await messages(opened.session, list);
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^toolu_[a-zA-Z0-9_-]+$/);
    const upstream = vllm.bodies[2].messages.filter(({ role }: Loose) => role === 'tool');
    // Where the policy gave none, ours stands for it.
    expect(upstream.map((each: Loose) => each.tool_call_id as string)).toEqual([
      'functions.Bash:0',
      ids[1],
      'functions.Bash:0',
      ids[3],
    ]);
  });

  test('10: what a server of Anthropic’s ran stands in no prompt; an unknown block is refused', async () => {
    const ran = [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
      { type: 'mcp_tool_use', id: 'm', name: 'x', server_name: 'y', input: {} },
      { type: 'mcp_tool_result', tool_use_id: 'm', content: [] },
    ];
    expect(await turn([...ran, text('so')])).toEqual({ role: 'assistant', content: 'so' });
    expect(await refusal([user('a'), assistant([{ type: 'hologram' }])])).toMatch(
      /^messages\.1\.content\.0\.type/,
    );
  });
});

describe('what users send', () => {
  test('35: base64 images are data URIs; URLs and file ids are refused: the policy would fetch them', async () => {
    expect(await askedMessages([user([text('see'), png])])).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'see' }, pngPart] },
    ]);
    for (const source of [
      { type: 'url', url: 'http://10.0.0.1/x.png' },
      { type: 'file', file_id: 'f' },
    ]) {
      expect(await refusal([user([{ type: 'image', source }])])).toBe(
        'messages.0.content.0.source.type: only base64 images are taken, URLs and file ids are not fetched',
      );
    }
  });

  test('a string is the same as one text block, anywhere', () => {
    const parse = (list: readonly unknown[], system: unknown): unknown =>
      parseMessagesRequest({ model: 'm', max_tokens: 9, messages: list, system }).request;
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (a, b) => {
        const plain = parse([user(a), assistant(b), user(a)], b);
        expect(parse([user([text(a)]), assistant([text(b)]), user([text(a)])], [text(b)])).toEqual(plain);
      }),
    );
  });
});
