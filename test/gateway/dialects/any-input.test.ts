import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { FakeVllm, type Loose } from '../support/fake-vllm.ts';
import { openGateway, post } from '../support/open-gateway.ts';
import { anyText, growing } from './conversations.ts';
import { assistant, png, result, text, use, user } from './turns.ts';

const paths = ['/v1/messages?beta=true', '/v1/messages/count_tokens', '/v1/chat/completions'];

const anthropic = {
  model: 'm',
  max_tokens: 9,
  stream: true,
  system: [text('s')],
  tools: [{ name: 'Bash', description: 'd', input_schema: { type: 'object', properties: {} } }],
  tool_choice: { type: 'tool', name: 'Bash' },
  stop_sequences: ['x'],
  thinking: { type: 'adaptive' },
  messages: [
    user([text('a'), png]),
    assistant([{ type: 'thinking', thinking: 't', signature: 's' }, text('b'), use('t', { a: [1] })]),
    user([
      result('t', [text('r'), { type: 'document', title: 'd', source: { type: 'content', content: [png] } }]),
    ]),
  ],
};

const openai = {
  model: 'm',
  n: 1,
  stream: true,
  stream_options: { include_usage: true },
  logprobs: true,
  return_token_ids: true,
  stop: ['x'],
  tools: [{ type: 'function', function: { name: 'Bash', parameters: { type: 'object' } } }],
  tool_choice: { type: 'function', function: { name: 'Bash' } },
  messages: [
    { role: 'system', content: 's' },
    { role: 'user', content: [{ type: 'text', text: 'a' }] },
    {
      role: 'assistant',
      content: null,
      reasoning: 'r',
      tool_calls: [{ id: 't', type: 'function', function: { name: 'Bash', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 't', content: 'r' },
  ],
};

/** Every place in a JSON value. */
function places(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  const own = value !== null && typeof value === 'object' ? Object.entries(value) : [];
  return [path, ...own.flatMap(([key, each]) => places(each, [...path, key]))];
}

function replaced(value: unknown, path: readonly string[], by: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return by;
  const copy: Loose = Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) };
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

/** A sound request with other values in some places. */
const damaged = (sound: unknown): fc.Arbitrary<unknown> =>
  fc
    .array(fc.tuple(fc.constantFrom(...places(sound)), fc.oneof(fc.jsonValue({ maxDepth: 2 }), anyText)), {
      minLength: 1,
      maxLength: 3,
    })
    .map((changes) =>
      // The deepest places first, so that each of them is still there.
      changes
        .sort(([a], [b]) => b.length - a.length)
        .reduce((value, [path, by]) => replaced(value, path, by), sound),
    );

const bodies: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.oneof(damaged(anthropic), damaged(openai)).map((value) => JSON.stringify(value)),
  },
  {
    weight: 2,
    arbitrary: growing.map((requests) => JSON.stringify({ ...anthropic, messages: requests.at(-1) })),
  },
  { weight: 1, arbitrary: fc.json({ maxDepth: 4 }) },
  { weight: 1, arbitrary: anyText },
  {
    weight: 1,
    arbitrary: fc.nat({ max: 100_000 }).map((depth) => {
      const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const schema = { name: 'x', input_schema: { type: 'object', x: 'HERE' } };
      return JSON.stringify({ ...anthropic, tools: [schema], tool_choice: null }).replace('"HERE"', nested);
    }),
  },
);

async function check(session: GatewaySession, path: string, body: string): Promise<void> {
  const response = await post(session, path, body);
  const told = await response.text();
  expect([200, 400], `${path} ${body.slice(0, 2000)} -> ${response.status} ${told}`).toContain(
    response.status,
  );
  if (response.status === 200) return;
  const { error } = JSON.parse(told) as { error: { type: string; message: string } };
  expect(error.type).toBe('invalid_request_error');
  expect(error.message).not.toBe('');
}

test('no body makes the gateway fail: it is served, or refused as a bad request in the API’s own shape', async () => {
  await using vllm = await FakeVllm.start();
  vllm.tokenize = () => ({ count: 5, tokens: [] });
  await using opened = await openGateway(vllm.url, {
    policy: { systemInPlace: true },
    limits: { max_turns: 1_000_000, max_sampled_tokens: 1_000_000_000 },
  });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), bodies, (path, body) => check(opened.session, path, body)),
    { numRuns: 400 },
  );
  expect(opened.session.stats()).toMatchObject({ failure: null, budget: null });
});
