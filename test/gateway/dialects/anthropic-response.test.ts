import { describe, expect, test } from 'vitest';
import type { AssistantMessage } from '../../../src/contracts/index.ts';
import { ChatError, type ChatAnswer } from '../../../src/gateway/chat.ts';
import { anthropicDialect } from '../../../src/gateway/dialects/anthropic/dialect.ts';
import type { DialectCall } from '../../../src/gateway/dialects/dialect.ts';
import { events } from '../support/open-gateway.ts';

const call: DialectCall = { request: { messages: [] }, stream: true, model: 'claude-x[1m]' };

function answer(message: Partial<AssistantMessage>, rest: Partial<ChatAnswer> = {}): ChatAnswer {
  return {
    call: 0,
    message: { role: 'assistant', content: null, ...message },
    stop: message.tool_calls ? 'tool_calls' : 'end',
    stop_sequence: null,
    usage: { prompt_tokens: 100, completion_tokens: 7, cached_tokens: 60 },
    tokens: { prompt_token_ids: null, token_ids: null, logprobs: null },
    delivered: () => {},
    superseded: () => {},
    ...rest,
  };
}

const tool = (id: string, given: string): NonNullable<AssistantMessage['tool_calls']>[number] => ({
  id,
  type: 'function',
  function: { name: 'Bash', arguments: given },
});

/** What a client puts together from a stream. */
function assembled(text: string): { blocks: Record<string, unknown>[]; stop: unknown; order: string[] } {
  const blocks: Record<string, unknown>[] = [];
  let stop: unknown;
  const all = events(text);
  for (const { data } of all) {
    if (data.type === 'content_block_start') blocks[data.index] = { ...data.content_block, json: '' };
    if (data.type === 'message_delta') stop = data.delta.stop_reason;
    if (data.type !== 'content_block_delta') continue;
    const block = blocks[data.index]! as Record<string, string>;
    if (data.delta.type === 'text_delta') block['text'] += data.delta.text;
    if (data.delta.type === 'thinking_delta') block['thinking'] += data.delta.thinking;
    if (data.delta.type === 'signature_delta') block['signature'] += data.delta.signature;
    if (data.delta.type === 'input_json_delta') block['json'] += data.delta.partial_json;
  }
  return { blocks, stop, order: all.map(({ event }) => event) };
}

describe('a streamed answer', () => {
  test('cases 39 to 43: blocks are dense, one after another, arguments only as deltas', () => {
    const made = answer({
      content: 'text ✓',
      reasoning: 'think',
      tool_calls: [tool('toolu_1', '{"a": 1}'), tool('toolu_2', '')],
    });
    const { blocks, stop, order } = assembled(anthropicDialect.stream(call, made));
    expect(blocks).toEqual([
      { type: 'thinking', thinking: 'think', signature: expect.stringMatching(/.+/), json: '' },
      { type: 'text', text: 'text ✓', json: '' },
      { type: 'tool_use', id: 'toolu_1', name: 'Bash', input: {}, json: '{"a": 1}' },
      { type: 'tool_use', id: 'toolu_2', name: 'Bash', input: {}, json: '{}' },
    ]);
    expect(stop).toBe('tool_use');
    expect(order.filter((name) => name === 'message_start')).toHaveLength(1);
    expect(order[0]).toBe('message_start');
    expect(order.slice(-2)).toEqual(['message_delta', 'message_stop']);
  });

  test('case 41: a thinking block’s signature is the same for the same text', () => {
    const signature = (): unknown =>
      assembled(anthropicDialect.stream(call, answer({ reasoning: 'x' }))).blocks[0]!['signature'];
    expect(signature()).toBe(signature());
  });

  test('case 44: arguments that are no JSON pass as they were sampled', () => {
    const raw = '{"command": "echo';
    const made = answer({ tool_calls: [tool('toolu_1', raw)] });
    expect(assembled(anthropicDialect.stream(call, made)).blocks[0]!['json']).toBe(raw);
    expect(anthropicDialect.unary(call, made)).toMatchObject({ content: [{ input: { raw } }] });
  });

  test('cases 46 and 47: true usage from the first event on, and the client’s own model string', () => {
    const [start, ...rest] = events(anthropicDialect.stream(call, answer({ content: 'x' })));
    expect(start!.data.message).toMatchObject({
      id: expect.stringMatching(/^msg_/),
      model: 'claude-x[1m]',
      usage: { input_tokens: 40, cache_read_input_tokens: 60, cache_creation_input_tokens: 0 },
    });
    const delta = rest.find(({ event }) => event === 'message_delta')!.data;
    expect(delta.usage).toMatchObject({ input_tokens: 40, output_tokens: 7 });
  });

  test('case 55: an answer without anything is one empty text block', () => {
    expect(anthropicDialect.unary(call, answer({ content: '' }))).toMatchObject({
      content: [{ type: 'text', text: '' }],
      stop_reason: 'end_turn',
    });
    expect(assembled(anthropicDialect.stream(call, answer({}))).blocks).toEqual([
      { type: 'text', text: '', json: '' },
    ]);
  });

  test('case 45: every way to stop has its word', () => {
    const word = (stop: ChatAnswer['stop'], stop_sequence: string | null = null): unknown =>
      anthropicDialect.unary(call, answer({ content: 'x' }, { stop, stop_sequence }));
    expect(word('end')).toMatchObject({ stop_reason: 'end_turn', stop_sequence: null });
    expect(word('length')).toMatchObject({ stop_reason: 'max_tokens' });
    expect(word('stop_sequence', 'END')).toMatchObject({
      stop_reason: 'stop_sequence',
      stop_sequence: 'END',
    });
    expect(word('refusal')).toMatchObject({ stop_reason: 'refusal' });
    expect(word('tool_calls')).toMatchObject({ stop_reason: 'tool_use' });
  });
});

describe('a refusal', () => {
  test('case 50: an overflow is in the words the CLI understands', () => {
    const error = new ChatError('context_overflow', 'x', { tokens: { prompt: 900, limit: 800 } });
    expect(anthropicDialect.error(error)).toEqual({
      status: 400,
      body: {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'Prompt is too long: 900 tokens > 800 maximum' },
      },
    });
  });

  test('case 51: statuses have Anthropic’s types', () => {
    const type = (status: number): unknown =>
      (anthropicDialect.httpError(status, 'x').body as { error: { type: string } }).error.type;
    expect([400, 401, 403, 404, 413, 415, 429, 500, 503, 529].map(type)).toEqual([
      'invalid_request_error',
      'authentication_error',
      'permission_error',
      'not_found_error',
      'request_too_large',
      'invalid_request_error',
      'rate_limit_error',
      'api_error',
      'api_error',
      'overloaded_error',
    ]);
  });

  test('case 49: inside a stream it is an error event and nothing after', () => {
    const [event, ...more] = events(
      anthropicDialect.streamError(new ChatError('policy_unavailable', 'down')),
    );
    expect(event).toMatchObject({ event: 'error', data: { type: 'error', error: { message: 'down' } } });
    expect(more).toEqual([]);
  });
});
