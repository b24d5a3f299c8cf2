import { describe, expect, test } from 'vitest';
import type { Loose } from '../support/fake-vllm.ts';
import { askedMessages, refusal } from './through-gateway.ts';
import { assistant, png, pngPart, result, text, use, user } from './turns.ts';

/** A conversation in which the calls a and b are followed by this user turn. */
const afterCalls = (content: unknown): readonly unknown[] => [
  user('go'),
  assistant([use('a'), use('b')]),
  user(content),
];
const told = async (content: unknown): Promise<Loose[]> =>
  (await askedMessages(afterCalls(content))).slice(2);
/** What the policy is told as the result of call a. */
const toldOf = async (content: unknown, rest = {}): Promise<string> =>
  (await told([result('a', content, rest), result('b')]))[0].content as string;

describe('tool results', () => {
  test('1: come first in their order, then one user message with the rest', async () => {
    expect(await told([text('one'), result('b', 'B'), text('two'), result('a', 'A')])).toEqual([
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      { role: 'tool', tool_call_id: 'a', content: 'A' },
      { role: 'user', content: 'one\ntwo' },
    ]);
  });

  test('1: a system message between calls and results goes behind the results', async () => {
    const list = [
      user('go'),
      assistant([use('a')]),
      { role: 'system', content: 'note' },
      user([result('a', 'A')]),
      assistant('x'),
      user('y'),
    ];
    const roles = (await askedMessages(list)).map(({ role, content }) => [role, content]);
    // This policy's template takes no system message there: it is folded into the result before it.
    expect(roles.slice(2)).toEqual([
      ['tool', 'A\n\nnote'],
      ['assistant', 'x'],
      ['user', 'y'],
    ]);
  });

  test('2: N results are N tool messages that name their tool_use by tool_use_id', async () => {
    const named = [
      { ...(result('a', '1') as object), id: 'other' },
      { ...(result('b', '2') as object), id: '' },
    ];
    expect(await told(named)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: '1' },
      { role: 'tool', tool_call_id: 'b', content: '2' },
    ]);
  });

  test('3: a missing one is made up, an orphan, a second one, or two calls of one id are refused', async () => {
    expect(await told([result('a', 'A')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'A' },
      { role: 'tool', tool_call_id: 'b', content: 'Error: this call has no result.' },
    ]);
    expect(await refusal(afterCalls([result('x')]))).toMatch(
      /^messages: the tool result "x" has no tool call/,
    );
    expect(await refusal(afterCalls([result('a'), result('a')]))).toMatch(/"a".*is its second/);
    expect(await refusal([user([result('a')])])).toMatch(/"a"/);
    expect(await refusal([user('go'), assistant([use('a'), use('a')]), user([result('a')])])).toMatch(
      /two tool calls of one turn have the id "a"/,
    );
  });

  test('4: content may be a text, a list joined by newlines, empty, null or absent', async () => {
    expect(await toldOf('x')).toBe('x');
    expect(await toldOf([text('x'), text('y')])).toBe('x\ny');
    for (const nothing of ['', [], null, undefined, [text('')]]) expect(await toldOf(nothing)).toBe('');
  });

  test('5: an image is hoisted into a user message behind all results, and named in its place', async () => {
    expect(await told([result('a', [text('see'), png]), result('b', [png]), text('then')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'see\n[image]' },
      { role: 'tool', tool_call_id: 'b', content: '[image]' },
      { role: 'user', content: [pngPart, pngPart, { type: 'text', text: 'then' }] },
    ]);
  });

  test('6: an error says so in front of its text', async () => {
    expect(await toldOf('boom', { is_error: true })).toBe('Error: boom');
    expect(await toldOf([text('boom')], { is_error: true })).toBe('Error: boom');
    expect(await toldOf(undefined, { is_error: true })).toBe('Error: ');
    expect(await toldOf('ok', { is_error: false })).toBe('ok');
  });

  test('7: documents and search results become text, their images are hoisted', async () => {
    const document = (source: unknown, rest = {}): unknown => ({ type: 'document', source, ...rest });
    const plain = document(
      { type: 'text', media_type: 'text/plain', data: 'D' },
      { title: 'T', context: 'C' },
    );
    expect(await toldOf([plain])).toBe('T\nC\nD');
    expect(await toldOf([document({ type: 'content', content: 'inner' })])).toBe('inner');
    const search = {
      type: 'search_result',
      title: 'T',
      source: 'http://x',
      content: [text('one'), text('two')],
    };
    expect(await toldOf([search])).toBe('T\nhttp://x\none\ntwo');
    const mixed = document({ type: 'content', content: [text('inner'), png] });
    expect(await told([result('a', [mixed]), result('b')])).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'inner\n[image]' },
      { role: 'tool', tool_call_id: 'b', content: '' },
      { role: 'user', content: [pngPart] },
    ]);
  });

  test('7: a document without text is said to be missing, never dropped in silence', async () => {
    const words = async (source: unknown): Promise<string> => toldOf([{ type: 'document', source }]);
    expect(await words({ type: 'base64', media_type: 'application/pdf', data: 'x' })).toMatch(
      /^\[document omitted: .*not application\/pdf\]$/,
    );
    expect(await words({ type: 'url', url: 'http://x' })).toMatch(/^\[document omitted: .*not url\]$/);
    expect(await words(null)).toMatch(/^\[document omitted: /);
  });

  test('8: a tool reference names its tool, which the policy knows with its whole schema', async () => {
    expect(await toldOf([{ type: 'tool_reference', tool_name: 'Look' }])).toBe('[tool: Look]');
    expect(await refusal(afterCalls([result('a', [{ type: 'tool_reference' }]), result('b')]))).toMatch(
      /^messages\.2\.content\.0\.content\.0\.tool_name: /,
    );
  });

  test('any other block inside a result is refused by its field', async () => {
    expect(await refusal(afterCalls([result('a', [{ type: 'hologram' }]), result('b')]))).toBe(
      'messages.2.content.0.content.0.type: a block of type "hologram" is not taken here',
    );
  });
});
