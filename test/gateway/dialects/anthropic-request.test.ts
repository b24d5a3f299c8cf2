import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ChatMessage } from '../../../src/contracts/index.ts';
import type { ChatRequest } from '../../../src/gateway/chat.ts';
import { parseMessagesRequest } from '../../../src/gateway/dialects/anthropic/request.ts';
import { parseJsonBody } from '../../../src/gateway/http/body.ts';

const user = (content: unknown): unknown => ({ role: 'user', content });
const assistant = (content: unknown): unknown => ({ role: 'assistant', content });
const use = (id: string, input: unknown = {}, name = 'Bash'): unknown => ({
  type: 'tool_use',
  id,
  name,
  input,
});
const result = (id: string, content?: unknown, rest = {}): unknown => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...rest,
});
const text = (value: string): unknown => ({ type: 'text', text: value });
const png = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } };

function parse(messages: readonly unknown[], rest: Record<string, unknown> = {}): ChatRequest {
  return parseMessagesRequest({ model: 'm', max_tokens: 9, messages, ...rest }).request;
}
const turns = (messages: readonly unknown[], rest: Record<string, unknown> = {}): readonly ChatMessage[] =>
  parse(messages, rest).messages;
/** The messages after one user turn and one assistant turn that called a and b. */
const afterCalls = (content: unknown): readonly ChatMessage[] =>
  turns([user('go'), assistant([use('a'), use('b')]), user(content)]).slice(2);

describe('tool results', () => {
  test('case 1: come first in their order, then one user message with the rest', () => {
    expect(afterCalls([text('one'), result('b', 'B'), text('two'), result('a', 'A')])).toEqual([
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      { role: 'tool', tool_call_id: 'a', content: 'A' },
      { role: 'user', content: 'one\ntwo' },
    ]);
  });

  test('case 2: N results are N tool messages that name their tool_use', () => {
    expect(afterCalls([result('a', '1'), result('b', '2')]).map((each) => each.role)).toEqual([
      'tool',
      'tool',
    ]);
  });

  test('case 3: a missing one is made up, an orphan or a second one is refused', () => {
    expect(afterCalls([result('a', 'A')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'A' },
      { role: 'tool', tool_call_id: 'b', content: 'Error: this call has no result.' },
    ]);
    expect(() => afterCalls([result('x', 'A')])).toThrow(/"x"/);
    expect(() => afterCalls([result('a', 'A'), result('a', 'A')])).toThrow(/"a"/);
  });

  test('case 4: content may be a text, a list joined by newlines, or absent', () => {
    expect(afterCalls([result('a', [text('x'), text('y')]), result('b')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'x\ny' },
      { role: 'tool', tool_call_id: 'b', content: '' },
    ]);
  });

  test('case 5: an image is hoisted into a user message after the results', () => {
    expect(afterCalls([result('a', [text('see'), png]), result('b', 'B'), text('then')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'see\n[image]' },
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
          { type: 'text', text: 'then' },
        ],
      },
    ]);
  });

  test('case 6: an error says so', () => {
    expect(
      afterCalls([result('a', 'boom', { is_error: true }), result('b', 'ok', { is_error: false })]),
    ).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'Error: boom' },
      { role: 'tool', tool_call_id: 'b', content: 'ok' },
    ]);
  });

  test('case 7: documents become text, and one without text is said to be missing', () => {
    const document = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'D' } };
    const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'x' } };
    const [first, second] = afterCalls([result('a', [document]), result('b', [pdf])]);
    expect(first).toMatchObject({ content: 'D' });
    expect(second).toMatchObject({ content: expect.stringMatching(/document omitted/) });
  });

  test('case 8: a tool reference names its tool', () => {
    const [first] = afterCalls([result('a', [{ type: 'tool_reference', tool_name: 'Look' }]), result('b')]);
    expect(first).toMatchObject({ content: '[tool: Look]' });
  });
});

describe('tools', () => {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { n: { type: 'number', exclusiveMinimum: 0, default: 1 } },
    additionalProperties: false,
  };
  const tools = (list: readonly unknown[], rest: Record<string, unknown> = {}): ChatRequest =>
    parse([user('x')], { tools: list, ...rest });

  test('cases 9, 12, 13: schemas pass unchanged, keys of the API itself do not', () => {
    const request = tools([
      {
        name: 'Bash',
        description: 'Runs.',
        input_schema: schema,
        cache_control: { type: 'ephemeral' },
        strict: true,
        defer_loading: true,
        input_examples: [],
      },
    ]);
    expect(request.tools).toEqual([
      { type: 'function', function: { name: 'Bash', description: 'Runs.', parameters: schema } },
    ]);
    expect(JSON.stringify(request.tools![0]!.function.parameters)).toBe(JSON.stringify(schema));
  });

  test('case 10: server tools are left out, any other without a schema is refused', () => {
    expect(tools([{ type: 'web_search_20250305', name: 'web_search' }]).tools).toBeUndefined();
    expect(() => tools([{ name: 'x' }])).toThrow('tools.0.input_schema: is missing');
  });

  test('case 11: a schema without a type is an object’s', () => {
    const [tool] = tools([{ type: 'custom', name: 'x', input_schema: {} }]).tools!;
    expect(tool!.function.parameters).toEqual({ type: 'object' });
  });

  test('cases 14 and 15: the choice is translated, and dropped where there is no tool', () => {
    const one = [{ name: 'x', input_schema: schema }];
    const choice = (tool_choice: unknown, list = one): unknown => {
      const { tool_choice: made, parallel_tool_calls: parallel } = tools(list, { tool_choice });
      return parallel === undefined ? made : [made, parallel];
    };
    expect(choice({ type: 'auto' })).toBe('auto');
    expect(choice({ type: 'any' })).toBe('required');
    expect(choice({ type: 'none' })).toBe('none');
    expect(choice({ type: 'tool', name: 'x' })).toEqual({ type: 'function', function: { name: 'x' } });
    expect(choice({ type: 'auto', disable_parallel_tool_use: true })).toEqual(['auto', false]);
    expect(choice({ type: 'any' }, [])).toBeUndefined();
  });
});

describe('the system prompt', () => {
  const system = (value: unknown, messages: readonly unknown[] = [user('x')]): unknown =>
    turns(messages, { system: value })[0];

  test('case 19: blocks are joined by a fixed separator, cache marks are nothing', () => {
    const marked = [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }, text('b')];
    expect(system(marked)).toEqual({ role: 'system', content: 'a\n\nb' });
    expect(system('a\n\nb')).toEqual(system(marked));
    expect(system('')).toEqual({ role: 'user', content: 'x' });
  });

  test('case 20: a billing header in front is stripped, and only there', () => {
    const header = 'x-anthropic-billing-header: cc_version=2; cch=abc;';
    expect(system([text(header), text('a')])).toEqual({ role: 'system', content: 'a' });
    expect(system(`${header}\na`)).toEqual({ role: 'system', content: 'a' });
    expect(system([text(`see ${header}`)])).toEqual({ role: 'system', content: `see ${header}` });
  });

  test('case 21: system messages in front join it, later ones stay where they are', () => {
    const messages = [
      { role: 'system', content: 'lead' },
      user('x'),
      { role: 'system', content: [text('note')] },
      assistant('y'),
      user('z'),
    ];
    expect(turns(messages, { system: 's' })).toEqual([
      { role: 'system', content: 's\n\nlead' },
      { role: 'user', content: 'x' },
      { role: 'system', content: 'note' },
      { role: 'assistant', content: 'y' },
      { role: 'user', content: 'z' },
    ]);
  });

  test('case 23: roles of newer clients are mapped, unknown ones refused', () => {
    expect(turns([user('a'), { role: 'developer', content: 'd' }, { role: 'ctx', content: 'c' }])).toEqual([
      { role: 'user', content: 'a' },
      { role: 'system', content: 'd' },
      { role: 'user', content: 'c' },
    ]);
    expect(() => turns([{ role: 'wizard', content: 'x' }])).toThrow(/^messages\.0\.role: /);
  });
});

describe('assistant turns', () => {
  test('cases 24 and 25: thinking is reasoning, redacted thinking is nothing', () => {
    const content = [
      { type: 'thinking', thinking: 'hm ', signature: 's' },
      { type: 'redacted_thinking', data: 'x' },
      text('so'),
    ];
    expect(turns([user('a'), assistant(content)])[1]).toEqual({
      role: 'assistant',
      content: 'so',
      reasoning: 'hm ',
    });
  });

  test('case 30: a turn of tool calls has null content, one without anything is left out', () => {
    expect(turns([user('a'), assistant([text(''), use('a')]), user([result('a')])])[1]).toMatchObject({
      content: null,
    });
    expect(turns([user('a'), assistant([text('')]), user('b')]).map(({ role }) => role)).toEqual([
      'user',
      'user',
    ]);
  });

  test('case 31: two in a row are one', () => {
    const merged = turns([user('a'), assistant('x'), assistant([use('t')]), user([result('t')])]);
    expect(merged[1]).toMatchObject({ content: 'x', tool_calls: [{ id: 't' }] });
  });

  test('case 32: inputs are JSON in the order they came; null and nothing are {}', () => {
    const given = (input: unknown): string | undefined => {
      const turn = turns([user('a'), assistant([use('t', input)]), user([result('t')])])[1]!;
      return turn.role === 'assistant' ? turn.tool_calls![0]!.function.arguments : undefined;
    };
    expect(given({ b: 1, a: 2 })).toBe('{"b":1,"a":2}');
    expect(given(null)).toBe('{}');
    expect(given(undefined)).toBe('{}');
    expect(given({ __unparsedToolInput: { raw: '{"a', len: 3 } })).toBe('{"a');
    expect(() => given([1])).toThrow(/input: must be an object/);
  });
});

describe('the rest of a request', () => {
  test('cases 16 and 17: stop sequences and max_tokens', () => {
    expect(parse([user('x')], { stop_sequences: ['a', 'b'] })).toMatchObject({
      stop: ['a', 'b'],
      max_tokens: 9,
    });
    expect(parse([user('x')], { stop_sequences: [] }).stop).toBeUndefined();
    expect(() => parse([user('x')], { max_tokens: 0 })).toThrow(/^max_tokens: /);
  });

  test('case 27: fields that mean nothing here are never a 400', () => {
    const rest = {
      metadata: {},
      container: 1,
      mcp_servers: [],
      betas: ['x'],
      speed: 'fast',
      service_tier: 3,
    };
    expect(parse([user('x')], rest)).toEqual(parse([user('x')]));
  });

  test('case 35: base64 images are data URIs; URLs and file ids are refused', () => {
    expect(turns([user([png])])).toEqual([
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } }] },
    ]);
    for (const source of [
      { type: 'url', url: 'http://x' },
      { type: 'file', file_id: 'f' },
    ]) {
      expect(() => turns([user([{ type: 'image', source }])])).toThrow(
        /messages\.0\.content\.0\.source\.type/,
      );
    }
  });

  test('case 37: lone surrogates become U+FFFD, pairs stay', () => {
    const body = parseJsonBody(Buffer.from('{"a":"\\ud83d x \\ud83d\\ude00","b":"\\\\ud83d"}'));
    expect(body).toEqual({ a: '\uFFFD x 😀', b: '\\ud83d' });
  });

  test('a string is the same as one text block, anywhere', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (a, b) => {
        const plain = turns([user(a), assistant(b), user(a)], { system: b });
        const blocks = turns([user([text(a)]), assistant([text(b)]), user([text(a)])], { system: [text(b)] });
        expect(blocks).toEqual(plain);
      }),
    );
  });

  test('bad bodies are refused by field', () => {
    expect(() => parseMessagesRequest(null)).toThrow('body: must be an object');
    expect(() => turns([])).toThrow('messages: must not be empty');
    expect(() => turns([user([{ type: 'hologram' }])])).toThrow(/^messages\.0\.content\.0\.type: /);
  });
});
