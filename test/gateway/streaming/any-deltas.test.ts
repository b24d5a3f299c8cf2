import fc from 'fast-check';
import { expect, test } from 'vitest';
import { answerMessage } from '../../../src/gateway/calls/answer-message.ts';
import { answerStop } from '../../../src/gateway/calls/answer-stop.ts';
import { ToldAnswer } from '../../../src/gateway/calls/told-answer.ts';
import type { ChatAnswer, ChatDelta } from '../../../src/gateway/chat.ts';
import { anthropicDialect } from '../../../src/gateway/dialects/anthropic/dialect.ts';
import type { DialectCall } from '../../../src/gateway/dialects/dialect.ts';
import { openaiDialect } from '../../../src/gateway/dialects/openai/dialect.ts';
import type { EngineAnswer } from '../../../src/gateway/engines/engine.ts';
import { readVllmStream } from '../../../src/gateway/engines/read-vllm-stream.ts';
import { VllmStreamAnswer } from '../../../src/gateway/engines/vllm-stream.ts';
import { DeltaLog, logStart } from '../../../src/gateway/http/delta-log.ts';
import { foldChunks, foldEvents } from '../dialects/strict-stream.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { events } from '../support/open-gateway.ts';
import { opening, token, usage } from '../support/streamed.ts';

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 6 }),
  fc.constantFrom('\n', ' ', '\u2028', '😀'),
);
const piece = fc.oneof(fc.constantFrom('{}', '{"a":', '1}', '}', '[', ']', '', ' ', '"'), text);

/** One delta as engines and bridges really send them: ids or names missing, late or again, calls in turn. */
const anyDelta: fc.Arbitrary<Loose> = fc.oneof(
  text.map((content) => ({ content })),
  text.map((reasoning) => ({ reasoning })),
  fc.record({ reasoning: text, content: text }),
  fc
    .array(
      fc.record(
        {
          index: fc.nat({ max: 2 }),
          id: fc.constantFrom('', 'x', 'y'),
          function: fc.record(
            { name: fc.constantFrom('', 'Bash', 'Read'), arguments: piece },
            { requiredKeys: [] },
          ),
        },
        { requiredKeys: ['function'] },
      ),
      { minLength: 1, maxLength: 2 },
    )
    .map((tool_calls) => ({ tool_calls, content: null })),
  fc.constant({}),
);

const bytes = (chunks: readonly unknown[]): Buffer =>
  Buffer.from(
    [...chunks.map((each) => JSON.stringify(each)), '[DONE]'].map((data) => `data: ${data}\n\n`).join(''),
  );

async function* body(...parts: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* parts;
}

/** What an agent is told of a stream, part by part, and the answer that is recorded of it. */
async function told(
  chunks: readonly unknown[],
): Promise<{ deltas: ChatDelta[]; answer: ChatAnswer; sampled: EngineAnswer }> {
  const deltas: ChatDelta[] = [];
  const answering = new ToldAnswer((delta) => deltas.push(delta), 'nonce');
  const sampled = await readVllmStream(
    body(bytes(chunks)),
    undefined,
    new VllmStreamAnswer((delta) => answering.take(delta, 3)),
  );
  const answer: ChatAnswer = {
    call: 3,
    message: answerMessage(sampled, 'nonce', 3),
    stop: answerStop(sampled),
    stop_sequence: sampled.stop_sequence,
    usage: { prompt_tokens: 4, completion_tokens: 1, cached_tokens: 0 },
    tokens: sampled,
    delivered: () => {},
    superseded: () => {},
  };
  return { deltas, answer, sampled };
}

const end = (finish: string): Loose => token({}, 12, { finish_reason: finish, stop_reason: null });
const call: DialectCall = { request: { messages: [] }, stream: true, model: 'm', includeUsage: true };
const wire = (value: unknown): Loose => JSON.parse(JSON.stringify(value));

const streams = fc
  .record({
    deltas: fc.array(anyDelta, { maxLength: 12 }),
    finish: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'),
  })
  .map(({ deltas, finish }) => [opening(), ...deltas.map((delta) => token(delta)), end(finish), usage(1)]);

/** A message's parts by their kinds: a stream may have several blocks of text where a whole answer has one. */
const parts = (content: readonly Loose[]): unknown => ({
  text: content.map((block) => (block.text ?? '') as string).join(''),
  thinking: content.map((block) => (block.thinking ?? '') as string).join(''),
  calls: content.filter(({ type }) => type === 'tool_use'),
});

test('whatever an engine streams, an Anthropic agent is told in order what is recorded', async () => {
  await fc.assert(
    fc.asyncProperty(streams, async (chunks) => {
      const { deltas, answer } = await told(chunks);
      const encoder = anthropicDialect.encoder(call)!;
      const stream = deltas.map((delta) => encoder.delta(delta)).join('') + encoder.end(answer);
      const { id: _id, content, ...folded } = foldEvents(events(stream));
      const { id: _other, content: whole, ...unary } = wire(anthropicDialect.unary(call, answer));
      expect(folded).toEqual(unary);
      expect(parts(content)).toEqual(parts(whole));
      expect(content.length).toBeGreaterThan(0);
    }),
    { numRuns: 200 },
  );
});

test('whatever an engine streams, an OpenAI agent is told in order what is recorded', async () => {
  await fc.assert(
    fc.asyncProperty(streams, async (chunks) => {
      const { deltas, answer } = await told(chunks);
      const encoder = openaiDialect.encoder(call)!;
      const stream = deltas.map((delta) => encoder.delta(delta)).join('') + encoder.end(answer);
      const strip = ({ id: _id, created: _created, ...rest }: Loose): unknown => {
        rest.choices[0].message.content ??= '';
        return rest;
      };
      expect(strip(foldChunks(events(stream)))).toEqual(strip(wire(openaiDialect.unary(call, answer))));
    }),
    { numRuns: 200 },
  );
});

test('who reads on from any place in the log is told the same', async () => {
  await fc.assert(
    fc.asyncProperty(streams, fc.nat(), async (chunks, place) => {
      const { deltas, answer } = await told(chunks);
      const log = new DeltaLog();
      const at = place % (deltas.length + 1);
      const encoder = openaiDialect.encoder(call)!;
      deltas.slice(0, at).forEach(log.push);
      let stream = log
        .since(logStart)
        .map((delta) => encoder.delta(delta))
        .join('');
      const behind = log.end;
      deltas.slice(at).forEach(log.push);
      stream += log
        .since(behind)
        .map((delta) => encoder.delta(delta))
        .join('');
      const { choices } = foldChunks(events(stream + encoder.end(answer)));
      expect(choices[0].message.content ?? '').toBe(answer.message.content ?? '');
      expect(choices[0].message.tool_calls).toEqual(answer.message.tool_calls);
    }),
  );
});

test('a chunk read without parsing is the chunk that a parser reads', async () => {
  const arbitrary = fc.record({
    said: fc.oneof(
      text.map((content) => ({ content })),
      text.map((reasoning) => ({ reasoning })),
      text.map((given) => ({ tool_calls: [{ index: 0, function: { arguments: given } }] })),
      fc.constant({}),
    ),
    logprob: fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(-9999, -1e-7, 0)),
    id: fc.nat(),
  });
  const named = { tool_calls: [{ index: 0, id: 'c', function: { name: 'Bash', arguments: '' } }] };
  await fc.assert(
    fc.asyncProperty(fc.array(arbitrary, { minLength: 1 }), async (tokens) => {
      const chunks = tokens.map(({ said, logprob, id }) => {
        const chunk = token(said, id);
        chunk.choices[0].logprobs.content[0].logprob = logprob;
        return chunk;
      });
      const all = [opening(), token(named, 1), ...chunks, end('stop'), usage(tokens.length + 2)];
      const plain = await readVllmStream(body(bytes(all)), undefined);
      // A field that nobody knows has every chunk parsed.
      const parsed = await readVllmStream(
        body(bytes(all.map((each) => ({ x: { y: 1 }, ...each })))),
        undefined,
      );
      expect(plain).toEqual(parsed);
      expect(Array.from(plain.token_ids!).slice(1, -1)).toEqual(tokens.map(({ id }) => id));
    }),
  );
});

test('what comes for a call that was told whole is none of it, in the record neither', async () => {
  const opened = (index: number, name: string): Loose => ({
    tool_calls: [{ index, id: `call-${index}`, function: { name, arguments: '' } }],
  });
  const given = (index: number, piece: string): Loose => ({
    tool_calls: [{ index, function: { arguments: piece } }],
  });
  const interleaved = await told([
    opening(),
    ...[
      opened(0, 'a'),
      opened(1, 'b'),
      given(0, '{"x"'),
      given(1, '{"y"'),
      given(0, ':1}'),
      given(1, ':2}'),
    ].map((delta) => token(delta)),
    end('tool_calls'),
  ]);
  expect(interleaved.deltas.map((delta) => ('text' in delta ? delta.text : delta.kind))).toEqual([
    'begin',
    'call',
    '{"x"',
    ':1}',
    'call',
    '{"y"',
    ':2}',
  ]);
  const late = await told([
    opening(),
    ...[opened(0, 'a'), given(0, '{"x":1}'), opened(1, 'b'), given(0, '{"z":3}'), given(1, '{}')].map(
      (delta) => token(delta),
    ),
    end('tool_calls'),
  ]);
  expect(late.sampled.tool_calls.map((each) => each.arguments)).toEqual(['{"x":1}', '{}']);
});
