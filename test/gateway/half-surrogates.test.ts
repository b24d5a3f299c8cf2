import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ChatMessage, ToolDefinition } from '../../src/contracts/index.ts';
import type { ChatCaller } from '../../src/gateway/chat.ts';
import { anyText } from './dialects/conversations.ts';
import { FakeVllm, sample } from './support/fake-vllm.ts';
import { messages, openGateway } from './support/open-gateway.ts';

/** Escapes of JSON text that stand for half a pair. */
const half = /(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/;

const caller = (): ChatCaller => ({ agent_id: 'main', role: 'main', signal: new AbortController().signal });

const tools: readonly ToolDefinition[] = [
  {
    type: 'function',
    function: {
      name: 'find',
      description: 'a\udc00',
      parameters: { properties: { '\ud83d': { enum: ['\udfff'] } } },
    },
  },
];

describe('half a surrogate pair', () => {
  test('of a tool’s result, a schema or the policy’s own words reaches the engine as U+FFFD from inside the process too', async () => {
    const said = sample({ content: 'x\ud83d', tools: [{ name: 'find', arguments: '{"q":"\ud83d"}' }] });
    await using vllm = await FakeVllm.start(said, sample());
    await using opened = await openGateway(vllm.url);
    const { session } = opened;
    const start: ChatMessage[] = [{ role: 'user', content: 'go \ud83d' }];
    const { message } = await session.chat({ messages: start, tools }, caller());
    const result: ChatMessage = {
      role: 'tool',
      tool_call_id: message.tool_calls![0]!.id,
      content: '{"a": "\ude00"}',
    };
    await session.chat({ messages: [...start, message, result], tools }, caller());
    const [, second] = vllm.bodies;
    expect(JSON.stringify(vllm.bodies)).not.toMatch(half);
    expect(second.messages).toMatchObject([
      { content: 'go \uFFFD' },
      { content: 'x\uFFFD', tool_calls: [{ function: { arguments: '{"q":"\uFFFD"}' } }] },
      { content: '{"a": "\uFFFD"}' },
    ]);
    expect(second.tools[0].function).toMatchObject({
      description: 'a\uFFFD',
      parameters: { properties: { '\uFFFD': { enum: ['\uFFFD'] } } },
    });
  });

  test('breaks no prefix: what was sent once is sent the same with every later call', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 10_000 } });
    await fc.assert(
      fc.asyncProperty(fc.array(anyText, { minLength: 1, maxLength: 4 }), async (texts) => {
        const history: ChatMessage[] = [];
        let before: unknown[] = [];
        for (const content of texts) {
          history.push({ role: 'user', content });
          const { message } = await opened.session.chat({ messages: [...history] }, caller());
          history.push(message);
          const sent = vllm.bodies.at(-1).messages as unknown[];
          expect(JSON.stringify(sent)).not.toMatch(half);
          expect(sent.slice(0, before.length)).toEqual(before);
          before = sent;
        }
      }),
      { numRuns: 40 },
    );
  });

  test('comes the same from an agent that speaks HTTP', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const content = '\ud83d \udc00\ud83d\ude00 \\ud83d';
    await messages(opened.session, content);
    await opened.session.chat({ messages: [{ role: 'user', content }] }, caller());
    const [http, inside] = vllm.bodies;
    expect(http.messages).toEqual(inside.messages);
    expect(inside.messages).toEqual([{ role: 'user', content: '\uFFFD \uFFFD😀 \\ud83d' }]);
  });
});
