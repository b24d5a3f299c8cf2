import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AssistantMessage, ChatMessage } from '../../../src/contracts/index.ts';
import type { ChatAnswer, ChatStop } from '../../../src/gateway/chat.ts';
import { anthropicDialect } from '../../../src/gateway/dialects/anthropic/dialect.ts';
import type { DialectCall } from '../../../src/gateway/dialects/dialect.ts';
import { openaiDialect } from '../../../src/gateway/dialects/openai/dialect.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { events } from '../support/open-gateway.ts';
import { anyText, growing } from './conversations.ts';
import { foldChunks, foldEvents } from './strict-stream.ts';

const parsed = (messages: readonly unknown[]): readonly ChatMessage[] =>
  anthropicDialect.parse({ model: 'm', max_tokens: 9, messages }).request.messages;

/** Throws unless every call has exactly one result right behind its turn, and no result stands anywhere else. */
function expectPaired(messages: readonly ChatMessage[]): void {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      expect(open, 'a result has a call right before it').toContain(message.tool_call_id);
      expect(typeof message.content).toBe('string');
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    expect(open, 'nothing stands between a call and its result').toEqual([]);
    if (message.role === 'assistant') open = (message.tool_calls ?? []).map(({ id }) => id);
  }
  expect(open, 'no call is left without a result').toEqual([]);
}

test('any valid conversation becomes one whose tool messages pair', () => {
  fc.assert(fc.property(growing, (requests) => expectPaired(parsed(requests.at(-1)!))));
});

test('a conversation that grows keeps its beginning, whole', () => {
  fc.assert(
    fc.property(growing, (requests) => {
      const translated = requests.map(parsed);
      for (const [at, earlier] of translated.slice(0, -1).entries()) {
        expect(translated[at + 1]!.slice(0, earlier.length)).toEqual(earlier);
      }
    }),
  );
});

test('the same conversation in the OpenAI API is the same request', () => {
  fc.assert(
    fc.property(growing, (requests) => {
      const messages = parsed(requests.at(-1)!);
      const again = openaiDialect.parse({ model: 'm', messages: structuredClone(messages) });
      expect(again.request.messages).toEqual(messages);
    }),
  );
});

const answers: fc.Arbitrary<ChatAnswer> = fc
  .record({
    content: fc.option(anyText),
    reasoning: fc.option(anyText, { nil: undefined }),
    calls: fc.array(fc.record({ name: anyText, raw: fc.oneof(anyText, fc.json({ maxDepth: 2 })) }), {
      maxLength: 3,
    }),
    stop: fc.constantFrom<ChatStop>('end', 'tool_calls', 'length', 'stop_sequence', 'refusal'),
    stop_sequence: fc.option(anyText),
    usage: fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat(), cached_tokens: fc.nat() }),
    logprobs: fc.array(fc.float(), { maxLength: 3 }),
  })
  .map(({ content, reasoning, calls, stop, stop_sequence, usage, logprobs }) => {
    const message: AssistantMessage = {
      role: 'assistant',
      content,
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(calls.length === 0
        ? {}
        : {
            tool_calls: calls.map(({ name, raw }, at) => ({
              id: `toolu_${at}`,
              type: 'function' as const,
              function: { name, arguments: raw },
            })),
          }),
    };
    return {
      call: 0,
      message,
      stop,
      stop_sequence,
      usage,
      tokens: {
        prompt_token_ids: Int32Array.of(1),
        token_ids: Int32Array.from(logprobs, (_, at) => at),
        logprobs: Float32Array.from(logprobs),
      },
      delivered: () => {},
      superseded: () => {},
    };
  });

const call: DialectCall = { request: { messages: [] }, stream: true, model: 'm' };
const wire = (value: unknown): Loose => JSON.parse(JSON.stringify(value));

test('any answer of the Anthropic API is a stream in order that says what the unary answer says', () => {
  fc.assert(
    fc.property(answers, (answer) => {
      const { id: _id, ...folded } = foldEvents(events(anthropicDialect.stream(call, answer)));
      const { id: _other, ...unary } = wire(anthropicDialect.unary(call, answer));
      expect(folded).toEqual(unary);
      expect(unary.content.length).toBeGreaterThan(0);
      expect(unary.usage.input_tokens).toBeGreaterThanOrEqual(0);
    }),
  );
});

test('any answer of the OpenAI API is a stream that says what the unary answer says', () => {
  fc.assert(
    fc.property(answers, fc.boolean(), fc.boolean(), (answer, logprobs, ids) => {
      const asked: DialectCall = { ...call, includeUsage: true, wants: { logprobs, ids } };
      const strip = ({ id: _id, created: _created, ...rest }: Loose): unknown => {
        // A stream has no way to tell no text from an empty one, nor no reasoning from an empty one.
        const { message } = rest.choices[0];
        message.content ??= '';
        message.reasoning ??= '';
        return rest;
      };
      const folded = strip(foldChunks(events(openaiDialect.stream(asked, answer))));
      expect(folded).toEqual(strip(wire(openaiDialect.unary(asked, answer))));
    }),
  );
});
