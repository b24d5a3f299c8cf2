import { expect } from 'vitest';
import type { Loose } from '../support/fake-vllm.ts';
import type { Event } from '../support/open-gateway.ts';

/** The kind of block that a delta may stand in. */
const home: Readonly<Record<string, string>> = {
  text_delta: 'text',
  thinking_delta: 'thinking',
  signature_delta: 'thinking',
  input_json_delta: 'tool_use',
};

function input(json: string): unknown {
  try {
    const value: unknown = json === '' ? {} : JSON.parse(json);
    if (value === null) return {};
    if (typeof value === 'object' && !Array.isArray(value)) return value;
  } catch {
    // Not JSON: what a client that takes no stream is given instead.
  }
  return { raw: json };
}

/**
 * Plays a strict client of Anthropic's streams: one message_start first, one message_stop last, blocks dense and one
 * after another, deltas only in their own kind of block, thinking signed before it ends. Gives the message it says.
 */
export function foldEvents(stream: readonly Event[]): Loose {
  const message: Loose = {};
  const content: Loose[] = [];
  let open: Loose = null;
  let json = '';
  let phase: 'before' | 'blocks' | 'closing' | 'over' = 'before';
  for (const { event, data } of stream) {
    expect(event, 'an event is named for its type').toBe(data.type);
    if (event === 'ping') continue;
    switch (event) {
      case 'message_start':
        expect(phase).toBe('before');
        expect(data.message).toMatchObject({ type: 'message', role: 'assistant', content: [] });
        Object.assign(message, data.message);
        phase = 'blocks';
        break;
      case 'content_block_start':
        expect([phase, open, data.index]).toEqual(['blocks', null, content.length]);
        open = { ...data.content_block };
        if (open.type === 'text') expect(open.text).toBe('');
        if (open.type === 'thinking') expect([open.thinking, open.signature]).toEqual(['', '']);
        if (open.type === 'tool_use') expect(open.input).toEqual({});
        json = '';
        break;
      case 'content_block_delta': {
        const { delta } = data;
        expect([data.index, open?.type]).toEqual([content.length, home[delta.type as string]]);
        if (delta.type === 'text_delta') open.text += delta.text;
        if (delta.type === 'thinking_delta') {
          expect(open.signature, 'nothing is thought after the signature').toBe('');
          open.thinking += delta.thinking;
        }
        if (delta.type === 'signature_delta') open.signature += delta.signature;
        if (delta.type === 'input_json_delta') json += delta.partial_json;
        break;
      }
      case 'content_block_stop':
        expect([data.index, open === null]).toEqual([content.length, false]);
        if (open.type === 'thinking') expect(open.signature).not.toBe('');
        if (open.type === 'tool_use') open.input = input(json);
        content.push(open);
        open = null;
        break;
      case 'message_delta':
        expect([phase, open]).toEqual(['blocks', null]);
        Object.assign(message, data.delta, { usage: data.usage });
        phase = 'closing';
        break;
      case 'message_stop':
        expect(phase).toBe('closing');
        phase = 'over';
        break;
      default:
        expect.unreachable(`an event ${event}`);
    }
  }
  expect(phase, 'the stream ends in message_stop').toBe('over');
  return { ...message, content };
}

/** Plays a client of OpenAI's streams: gives the completion that the chunks say. */
export function foldChunks(stream: readonly Event[]): Loose {
  expect(stream.at(-1)?.data, 'the stream ends in [DONE]').toBe('[DONE]');
  const chunks = stream.slice(0, -1).map(({ data }) => data);
  const message: Loose = { role: undefined, content: null };
  const calls: Loose[] = [];
  const choice: Loose = { index: 0, message, logprobs: null, finish_reason: null };
  const root: Loose = {};
  for (const chunk of chunks) {
    expect(chunk.object).toBe('chat.completion.chunk');
    const { choices, object: _object, ...rest } = chunk;
    Object.assign(root, rest);
    if (choices.length === 0) {
      expect(choice.finish_reason, 'usage comes after the end').not.toBeNull();
      continue;
    }
    expect(choice.finish_reason, 'nothing comes after the end').toBeNull();
    const { delta, ...outer } = choices[0];
    Object.assign(choice, outer);
    if (delta.role !== undefined) message.role = delta.role;
    if (delta.content) message.content = (message.content ?? '') + delta.content;
    if (delta.reasoning !== undefined) message.reasoning = (message.reasoning ?? '') + delta.reasoning;
    for (const { index, ...call } of delta.tool_calls ?? []) {
      if (call.id === undefined) {
        expect(index, 'arguments are of the call that was begun last').toBe(calls.length - 1);
        calls.at(-1).function.arguments += call.function.arguments;
        continue;
      }
      expect(index, 'indices are dense').toBe(calls.length);
      calls.push({ ...call, function: { ...call.function } });
    }
  }
  if (calls.length > 0) message.tool_calls = calls;
  return { ...root, object: 'chat.completion', choices: [choice] };
}
