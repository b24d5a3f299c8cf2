import { describe, expect, test } from 'vitest';
import { FakeVllm, json, completion, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway, type Event } from '../support/open-gateway.ts';
import { answered } from './through-gateway.ts';

const names = (list: readonly Event[]): string[] => list.map(({ event }) => event);
const of = (list: readonly Event[], event: string): Loose[] =>
  list.filter((each) => each.event === event).map(({ data }) => data);
const deltas = (list: readonly Event[]): Loose[] => of(list, 'content_block_delta').map(({ delta }) => delta);

const everything = {
  content: 'text ✓',
  reasoning: 'think',
  tools: [
    { name: 'Bash', arguments: '{"a": 1}' },
    { name: 'Read', arguments: '' },
  ],
};

describe('an answer, streamed and not', () => {
  test('40: each kind of block is closed before the next begins, and no empty one stands in front', async () => {
    const { events, unary } = await answered(everything);
    expect(unary.content.map(({ type }: Loose) => type as string)).toEqual([
      'thinking',
      'text',
      'tool_use',
      'tool_use',
    ]);
    expect(names(events).join(' ')).toBe(
      'message_start ' +
        'content_block_start content_block_delta content_block_delta content_block_stop ' +
        'content_block_start content_block_delta content_block_stop '.repeat(3) +
        'message_delta message_stop',
    );
    const bare = await answered({ content: '', tools: everything.tools });
    expect(bare.unary.content).toHaveLength(2);
  });

  test('41: thinking opens empty, and is signed before it ends, the same for the same text', async () => {
    const one = await answered({ reasoning: 'think', content: 'x' });
    const other = await answered({ reasoning: 'think', content: 'y' });
    expect(of(one.events, 'content_block_start')[0].content_block).toEqual({
      type: 'thinking',
      thinking: '',
      signature: '',
    });
    expect(deltas(one.events).map(({ type }) => type as string)).toEqual([
      'thinking_delta',
      'signature_delta',
      'text_delta',
    ]);
    expect(one.unary.content[0]).toEqual({
      type: 'thinking',
      thinking: 'think',
      signature: expect.stringMatching(/.+/),
    });
    expect(other.unary.content[0]).toEqual(one.unary.content[0]);
  });

  test('42: a call opens with an empty input; its arguments come as deltas, {} where there are none', async () => {
    const { events } = await answered(everything);
    const starts = of(events, 'content_block_start').slice(2);
    expect(starts.map(({ content_block }) => content_block.input as unknown)).toEqual([{}, {}]);
    expect(deltas(events).slice(-2)).toEqual([
      { type: 'input_json_delta', partial_json: '{"a": 1}' },
      { type: 'input_json_delta', partial_json: '{}' },
    ]);
  });

  test('43: parallel calls are blocks one after another, in the policy’s order', async () => {
    const tools = ['a', 'b', 'c'].map((name) => ({ name, arguments: `{"of":"${name}"}` }));
    const { unary } = await answered({ tools });
    expect(unary.content).toMatchObject([{ name: 'a', input: { of: 'a' } }, { name: 'b' }, { name: 'c' }]);
  });

  test('44: arguments that are no JSON object pass as they were sampled; a unary answer wraps them', async () => {
    for (const raw of ['{"command": "echo', '[1]', '"x"', 'NaN', '{"a":1}{"b":2}', '\ud83d']) {
      const { unary, events } = await answered({ tools: [{ name: 'Bash', arguments: raw }] });
      expect(deltas(events)).toEqual([{ type: 'input_json_delta', partial_json: raw }]);
      expect(unary.content[0].input).toEqual({ raw });
    }
  });

  test.each<[string, Loose, string, string | null]>([
    ['an end', { finish: 'stop' }, 'end_turn', null],
    ['an end at a token of the model’s', { finish: 'stop', stopReason: 151_645 }, 'end_turn', null],
    ['a length', { finish: 'length' }, 'max_tokens', null],
    ['tool calls', { tools: everything.tools, finish: 'tool_calls' }, 'tool_use', null],
    ['a forced call that only stops', { tools: everything.tools, finish: 'stop' }, 'tool_use', null],
    ['a call cut by the length', { tools: everything.tools, finish: 'length' }, 'max_tokens', null],
    ['calls that nobody could read', { finish: 'tool_calls' }, 'end_turn', null],
    ['a stop string', { finish: 'stop', stopReason: 'END' }, 'stop_sequence', 'END'],
    ['calls before a stop string', { tools: everything.tools, stopReason: 'END' }, 'tool_use', null],
    ['a filter', { finish: 'content_filter' }, 'refusal', null],
    ['a word nobody knows', { finish: 'repetition' }, 'end_turn', null],
  ])('45: %s has its stop reason', async (_name, sampled, stop_reason, stop_sequence) => {
    const { unary, events } = await answered(sampled as object);
    expect(unary).toMatchObject({ stop_reason, stop_sequence });
    expect(of(events, 'message_delta')[0].delta).toEqual({ stop_reason, stop_sequence });
  });

  test('45: an answer that the policy aborted is sampled again, and never delivered as an end', async () => {
    await using vllm = await FakeVllm.start(
      sample({ finish: 'abort', content: 'ha' }),
      sample({ content: 'whole' }),
    );
    await using opened = await openGateway(vllm.url);
    const body = await (await messages(opened.session, 'hi')).json();
    expect(body).toMatchObject({ content: [{ text: 'whole' }], stop_reason: 'end_turn' });
  });

  test('46: usage is true from the first event on; cached tokens are told apart and count once', async () => {
    await using vllm = await FakeVllm.start((_request, response) => {
      const body = completion({ prompt: [1, 2, 3, 4, 5], ids: [6, 7] });
      json(response, 200, { ...body, usage: { ...body.usage, prompt_tokens_details: { cached_tokens: 3 } } });
    });
    await using opened = await openGateway(vllm.url);
    const usage = {
      input_tokens: 2,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 0,
      output_tokens: 2,
    };
    expect(await (await messages(opened.session, 'hi')).json()).toMatchObject({ usage });
    const { events } = await answered({ prompt: [1, 2, 3], ids: [4, 5] });
    expect(events[0]!.data.message.usage).toMatchObject({ input_tokens: 3, output_tokens: 0 });
    expect(of(events, 'message_delta')[0].usage).toMatchObject({ input_tokens: 3, output_tokens: 2 });
  });

  test('47: the model is the client’s own string, and ids are Anthropic’s kind', async () => {
    const { unary, events } = await answered({ content: 'x' }, 'claude-opus-4-6[1m]');
    expect(unary).toMatchObject({
      model: 'claude-opus-4-6[1m]',
      id: expect.stringMatching(/^msg_[a-z0-9]+$/),
    });
    expect(events[0]!.data.message.model).toBe('claude-opus-4-6[1m]');
  });

  test('55: an answer without anything is one empty text block; whitespace stays as it was sampled', async () => {
    expect((await answered({ content: '' })).unary.content).toEqual([{ type: 'text', text: '' }]);
    expect((await answered({ content: null })).unary.content).toEqual([{ type: 'text', text: '' }]);
    expect((await answered({ content: '\n \n' })).unary.content).toEqual([{ type: 'text', text: '\n \n' }]);
    expect((await answered({ content: null, reasoning: 'hm' })).unary.content).toMatchObject([
      { type: 'thinking' },
    ]);
  });
});
