import { createHash } from 'node:crypto';
import type { ChatAnswer, ChatStop } from '../../chat.ts';
import { isShallow } from '../../nesting.ts';
import type { DialectCall } from '../dialect.ts';
import { randomId } from '../../random-id.ts';
import { sse } from '../sse.ts';

const stopReasons: Readonly<Record<ChatStop, string>> = {
  end: 'end_turn',
  tool_calls: 'tool_use',
  length: 'max_tokens',
  stop_sequence: 'stop_sequence',
  refusal: 'refusal',
};

interface Block {
  /** As it stands in a unary answer. */
  readonly whole: unknown;
  /** As it opens in a stream. */
  readonly start: unknown;
  readonly deltas: readonly unknown[];
}

/** Not empty and always the same for the same text: the CLI drops thinking without one (cases 24 and 41). */
export function signature(thinking: string): string {
  return createHash('sha256').update(thinking).digest('base64');
}

/** A tool call's input for clients that take no stream: an object, whatever the policy wrote (case 44). */
function inputObject(raw: string): unknown {
  if (raw.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(raw);
    if (value === null) return {};
    if (typeof value === 'object' && !Array.isArray(value) && isShallow(value)) return value;
  } catch {
    // Not JSON.
  }
  return { raw };
}

function blocksOf(answer: ChatAnswer): Block[] {
  const { content, reasoning, tool_calls: calls = [] } = answer.message;
  const blocks: Block[] = [];
  if (reasoning !== undefined && reasoning !== '') {
    const signed = signature(reasoning);
    blocks.push({
      whole: { type: 'thinking', thinking: reasoning, signature: signed },
      start: { type: 'thinking', thinking: '', signature: '' },
      deltas: [
        { type: 'thinking_delta', thinking: reasoning },
        { type: 'signature_delta', signature: signed },
      ],
    });
  }
  if ((content !== null && content !== '') || (calls.length === 0 && blocks.length === 0)) {
    const text = content ?? '';
    blocks.push({
      whole: { type: 'text', text },
      start: { type: 'text', text: '' },
      deltas: text === '' ? [] : [{ type: 'text_delta', text }],
    });
  }
  for (const { id, function: called } of calls) {
    const raw = called.arguments.trim() === '' ? '{}' : called.arguments;
    blocks.push({
      whole: { type: 'tool_use', id, name: called.name, input: inputObject(raw) },
      // The CLI ignores an input that stands here: arguments come as deltas only (case 42).
      start: { type: 'tool_use', id, name: called.name, input: {} },
      deltas: [{ type: 'input_json_delta', partial_json: raw }],
    });
  }
  return blocks;
}

/** Usage as Anthropic counts it: cached tokens are none of the input's (case 46). */
export function usageOf(usage: ChatAnswer['usage']): Record<string, number> {
  const cached = usage.cached_tokens ?? 0;
  return {
    input_tokens: Math.max(0, usage.prompt_tokens - cached),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage.completion_tokens,
  };
}

function envelope(call: DialectCall): Record<string, unknown> {
  return {
    id: `msg_${randomId()}`,
    type: 'message',
    role: 'assistant',
    // The client's own string: with another one the CLI drops all thinking of its history (case 47).
    model: call.model,
  };
}

/** The matched string is told only where it is the reason: a turn with tool calls ends in them. */
function stopOf({ stop, stop_sequence }: ChatAnswer): Record<string, string | null> {
  return {
    stop_reason: stopReasons[stop],
    stop_sequence: stop === 'stop_sequence' ? stop_sequence : null,
  };
}

export function unaryMessage(call: DialectCall, answer: ChatAnswer): unknown {
  return {
    ...envelope(call),
    content: blocksOf(answer).map(({ whole }) => whole),
    ...stopOf(answer),
    usage: usageOf(answer.usage),
  };
}

/** The first event of a stream. */
export function messageStart(
  call: DialectCall,
  usage: Omit<ChatAnswer['usage'], 'completion_tokens'>,
): string {
  const message = {
    ...envelope(call),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: usageOf({ ...usage, completion_tokens: 0 }),
  };
  return sse({ type: 'message_start', message });
}

/** The last events of a stream. */
export function messageEnd(answer: ChatAnswer): string {
  return (
    sse({ type: 'message_delta', delta: stopOf(answer), usage: usageOf(answer.usage) }) +
    sse({ type: 'message_stop' })
  );
}

/** The answer as the events of a stream, in the order of case 39, with true usage from the first on (case 46). */
export function streamedMessage(call: DialectCall, answer: ChatAnswer): string {
  const events = [messageStart(call, answer.usage)];
  for (const [index, { start, deltas }] of blocksOf(answer).entries()) {
    events.push(sse({ type: 'content_block_start', index, content_block: start }));
    for (const delta of deltas) events.push(sse({ type: 'content_block_delta', index, delta }));
    events.push(sse({ type: 'content_block_stop', index }));
  }
  events.push(messageEnd(answer));
  return events.join('');
}
