import { describe, expect, test } from 'vitest';
import type { Script } from '../../../src/policy/index.ts';
import { startScriptedPolicy } from '../../../src/policy/index.ts';
import { foldChunks, foldEvents } from '../dialects/strict-stream.ts';
import { FakeVllm, fault, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway, post } from '../support/open-gateway.ts';
import { HeldStream, opening, streams, token, usage } from '../support/streamed.ts';
import { StreamReader, streamBody, type Dialect } from './reading.ts';

const dialects: readonly Dialect[] = ['anthropic', 'openai'];
const streaming = { policy: { streaming: true } };
const tool = { name: 'Bash', input_schema: { type: 'object' } };
const openaiTool = { type: 'function', function: { name: 'Bash', parameters: { type: 'object' } } };
const toolsOf = (dialect: Dialect): Loose => ({ tools: [dialect === 'anthropic' ? tool : openaiTool] });

const turns: Script['turns'] = [
  { text: 'Plain words, then an end.' },
  { thinking: 'Let me see.\n', text: 'I see: é€😀👩‍👩‍👧 ✓' },
  { tool_calls: [{ name: 'Bash', arguments: { command: 'ls -l', ключ: '😀' } }] },
  {
    thinking: 'Two at once.',
    text: 'I look.',
    tool_calls: [
      { name: 'Bash', arguments: '{"command" : "echo \\u00e9",  "n": 1.0}' },
      { name: 'Bash', arguments: {} },
    ],
  },
  { tool_calls: [{ name: 'Bash', arguments: '{"command": "echo' }] },
  { thinking: 'Only a thought.' },
  { text: '\n \n' },
  { raw: 'text <tool_call>\n{"name": "Bash", "arguments": {"a": 1}}\n</tool_call>\n and more behind it' },
  { raw: '<tool_call>\nno call at all' },
];

describe.each(dialects)('an answer passed on to an agent of the %s API', (dialect) => {
  test('is read before the policy has said all of it', async () => {
    const held = new HeldStream();
    await using vllm = await FakeVllm.start(held.play);
    await using opened = await openGateway(vllm.url, streaming);
    const reading = StreamReader.open(opened.session, dialect, streamBody('hi'));
    await held.send(opening(), token({ content: 'One ' }, 21));
    const reader = await reading;
    expect(reader.status).toBe(200);
    await reader.until('One ');
    await held.send(token({ content: 'two ' }, 22));
    await reader.until('One two ');
    expect(opened.session.stats()).toMatchObject({ calls: 1, completion_tokens: 0 });
    await held.end(token({ content: 'three' }, 23, { finish_reason: 'stop', stop_reason: null }), usage(3));
    const told = await reader.all();
    expect(reader.said).toBe('One two three');
    if (dialect === 'anthropic') {
      expect(told[0]!.data.message.usage).toMatchObject({ input_tokens: 4, output_tokens: 0 });
      expect(foldEvents(told)).toMatchObject({
        stop_reason: 'end_turn',
        usage: { input_tokens: 4, output_tokens: 3 },
      });
    } else expect(foldChunks(told).choices[0].finish_reason).toBe('stop');
    expect(await opened.session.finish()).toMatchObject([
      {
        fate: 'delivered',
        reasons: [],
        answer: { content: 'One two three' },
        prompt_token_ids: Int32Array.of(1, 2, 3, 4),
        token_ids: Int32Array.of(21, 22, 23),
      },
    ]);
  });

  test('is read while a policy samples that takes its time', async () => {
    await using policy = await startScriptedPolicy({
      scripts: [{ match: 'go', turns: [{ text: 'word '.repeat(200) }] }],
      model: 'policy',
      tokenMs: 3,
    });
    await using opened = await openGateway(policy.url, streaming);
    const reader = await StreamReader.open(opened.session, dialect, streamBody('go'));
    await reader.until('word ');
    expect(reader.over).toBe(false);
    expect(opened.session.stats().completion_tokens).toBe(0);
    await reader.all();
    expect(reader.said).toBe('word '.repeat(200));
    expect((await opened.session.finish()).map(({ fate }) => fate)).toEqual(['delivered']);
  });

  test.each(turns.map((turn, at) => [at, turn] as const))(
    'is the message that is recorded, and that a client without a stream is given: turn %i',
    async (_at, turn) => {
      await using policy = await startScriptedPolicy({
        scripts: [{ match: 'go', turns: [turn] }],
        model: 'policy',
        seed: 5,
        splitRate: 0.2,
      });
      await using opened = await openGateway(policy.url, { ...streaming, sampling: { seed: 9 } });
      const reader = await StreamReader.open(
        opened.session,
        dialect,
        streamBody('go', { ...toolsOf(dialect), stream_options: { include_usage: true } }),
      );
      const told = await reader.all();
      expect(reader.text).not.toContain('\uFFFD');
      const [record] = await opened.session.finish();
      const answer = record!.answer!;
      expect(answer.role).toBe('assistant');
      const { content, reasoning, tool_calls: calls } = answer as Loose;
      expect(Array.from(record!.token_ids!)).toEqual(policy.samples()[0]!.token_ids);
      if (dialect === 'openai') {
        const { message } = foldChunks(told).choices[0];
        expect({ ...message, content: message.content ?? '' }).toEqual({ ...answer, content: content ?? '' });
      } else {
        const blocks = foldEvents(told).content as Loose[];
        const joined = (kind: string): string =>
          blocks.map((block) => (block[kind] ?? '') as string).join('');
        expect(joined('text')).toBe(content ?? '');
        expect(joined('thinking')).toBe(reasoning ?? '');
        expect(blocks.filter(({ id }) => id).map(({ id, name }) => [id, name])).toEqual(
          (calls ?? []).map((call: Loose) => [call.id, call.function.name]),
        );
      }
      // The same tokens, whole.
      const other = await opened.open();
      const unary = await post(other, dialect === 'openai' ? '/v1/chat/completions' : '/v1/messages', {
        ...streamBody('go', toolsOf(dialect)),
        stream: false,
      });
      const body = (await unary.json()) as Loose;
      const [again] = await other.finish();
      const plain = (message: unknown): unknown =>
        JSON.parse(JSON.stringify(message).replace(/toolu_\w+/g, 'id'));
      expect(plain(again!.answer)).toEqual(plain(answer));
      if (dialect === 'anthropic') expect(body.stop_reason).toBe(foldEvents(told).stop_reason);
      else expect(body.choices[0].finish_reason).toBe(foldChunks(told).choices[0].finish_reason);
    },
  );

  test('38: has no half characters, wherever the policy’s bytes were cut', async () => {
    const text = 'é€😀👩‍👩‍👧 done';
    await using vllm = await FakeVllm.start(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunks = [opening(), ...[...text].map((content) => token({ content }))];
      const last = token({}, 12, { finish_reason: 'stop' });
      for (const data of [...chunks, last].map((each) => JSON.stringify(each)).concat('[DONE]')) {
        // Each byte a write of its own.
        for (const byte of Buffer.from(`data: ${data}\n\n`)) response.write(Uint8Array.of(byte));
      }
      response.end();
    });
    await using opened = await openGateway(vllm.url, streaming);
    const reader = await StreamReader.open(opened.session, dialect, streamBody('hi'));
    await reader.all();
    expect(reader.said).toBe(text);
  });

  test('49: is tried again, and refused with its status, as long as nothing was said', async () => {
    const held = new HeldStream();
    await using vllm = await FakeVllm.start(held.play, fault(400, 'no'));
    await using opened = await openGateway(vllm.url, streaming);
    const reading = StreamReader.open(opened.session, dialect, streamBody('hi'));
    await held.send(opening(), token({}));
    await held.die();
    expect((await reading).status).toBe(400);
    expect(vllm.bodies).toHaveLength(2);
    expect(opened.session.stats().failure).toBeNull();
  });
});

test('a client without a stream is given the whole answer of a policy that streams', async () => {
  await using vllm = await FakeVllm.start(streams({ content: 'whole' }));
  await using opened = await openGateway(vllm.url, streaming);
  const response = await messages(opened.session, 'hi');
  expect(await response.json()).toMatchObject({ content: [{ type: 'text', text: 'whole' }] });
  expect(vllm.bodies[0]).toMatchObject({ stream: true });
});

test('59: a stream with logprobs and ids is told at the end, as they stand there', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, streaming);
  const reading = StreamReader.open(
    opened.session,
    'openai',
    streamBody('hi', { logprobs: true, return_token_ids: true }),
  );
  await held.send(opening(), token({ content: 'a' }, 21));
  await held.end(token({ content: 'b' }, 22, { finish_reason: 'stop' }));
  const { choices } = foldChunks(await (await reading).all());
  expect(choices).toMatchObject([{ message: { content: 'ab' }, token_ids: [21, 22] }]);
});
