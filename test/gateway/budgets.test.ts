import { describe, expect, test } from 'vitest';
import { ChatError, type ChatCaller } from '../../src/gateway/chat.ts';
import type { GatewaySession } from '../../src/gateway/session.ts';
import { until } from '../support/wait.ts';
import { completion, FakeVllm, fault, gate, json, sample } from './support/fake-vllm.ts';
import { events, messages, openGateway, post } from './support/open-gateway.ts';

const never = new AbortController().signal;
const as = (caller: Partial<ChatCaller> = {}): ChatCaller => ({
  agent_id: 'main',
  role: 'main',
  signal: never,
  ...caller,
});
const user = (content: string): { role: 'user'; content: string } => ({ role: 'user', content });

/** Asks from inside the process; why the answer ended, or the code of the refusal. */
async function ask(
  session: GatewaySession,
  content: string,
  caller: Partial<ChatCaller> = {},
): Promise<string> {
  try {
    const answer = await session.chat({ messages: [user(content)] }, as(caller));
    answer.delivered(true);
    return answer.stop;
  } catch (error) {
    if (error instanceof ChatError) return error.code;
    throw error;
  }
}

/** What an agent is told: why an answer ended, or a refusal's status, name and message. */
type Told = string | readonly [status: number, name: string, message: string];

interface Tongue {
  readonly name: string;
  readonly tell: (session: GatewaySession, content: string) => Promise<Told>;
  /** Its word for an answer that was cut. */
  readonly cut: string;
  readonly refusals: Readonly<Record<'turns' | 'tokens' | 'time' | 'context', readonly [number, string]>>;
}

async function anthropic(session: GatewaySession, content: string, stream: boolean): Promise<Told> {
  const response = await messages(session, content, { stream });
  const text = await response.text();
  if (response.status !== 200) {
    expect(response.headers.get('x-should-retry')).toBe('false');
    const { error } = JSON.parse(text) as { error: { type: string; message: string } };
    return [response.status, error.type, error.message];
  }
  if (!stream) return (JSON.parse(text) as { stop_reason: string }).stop_reason;
  return events(text).find(({ event }) => event === 'message_delta')!.data.delta.stop_reason as string;
}

async function openai(session: GatewaySession, content: string, stream: boolean): Promise<Told> {
  const body = { model: 'm', messages: [user(content)], stream };
  const response = await post(session, '/v1/chat/completions', body);
  const text = await response.text();
  if (response.status !== 200) {
    expect(response.headers.get('x-should-retry')).toBe('false');
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    return [response.status, error.code, error.message];
  }
  type Chunk = { choices: { finish_reason: string | null }[] };
  const chunks: Chunk[] = stream
    ? events(text).map(({ data }) => data as Chunk)
    : [JSON.parse(text) as Chunk];
  return chunks.flatMap((chunk) => chunk.choices ?? []).find((choice) => choice.finish_reason)!
    .finish_reason!;
}

const billing = {
  turns: [402, 'billing_error'],
  tokens: [402, 'billing_error'],
  time: [402, 'billing_error'],
};
const codes = { turns: [402, 'turn_budget'], tokens: [402, 'token_budget'], time: [402, 'time_budget'] };
const tongues: readonly Tongue[] = [false, true].flatMap((stream) => [
  {
    name: `Anthropic’s API${stream ? ', streamed' : ''}`,
    tell: (session: GatewaySession, content: string) => anthropic(session, content, stream),
    cut: 'max_tokens',
    refusals: { ...billing, context: [400, 'invalid_request_error'] } as unknown as Tongue['refusals'],
  },
  {
    name: `OpenAI’s API${stream ? ', streamed' : ''}`,
    tell: (session: GatewaySession, content: string) => openai(session, content, stream),
    cut: 'length',
    refusals: { ...codes, context: [400, 'context_length_exceeded'] } as unknown as Tongue['refusals'],
  },
]);

describe.each(tongues)('the budgets of an agent that speaks $name', ({ tell, cut, refusals }) => {
  test('turns: exactly so many are sampled, the one after them is refused for good', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 2 } });
    for (const content of ['one', 'two']) expect(typeof (await tell(opened.session, content))).toBe('string');
    expect(opened.session.stats().budget).toBeNull();
    for (const content of ['three', 'four']) {
      expect(await tell(opened.session, content)).toEqual([
        ...refusals.turns,
        "this episode's budget of 2 turns is used up",
      ]);
    }
    expect(vllm.bodies).toHaveLength(2);
    expect(opened.session.stats()).toMatchObject({ budget: 'max_turns', main_turns: 2, failure: null });
  });

  test('sampled tokens: the last call is cut to what is left and told so, the next is refused', async () => {
    await using vllm = await FakeVllm.start(
      sample({ ids: [1, 2, 3] }),
      sample({ ids: [4, 5], finish: 'length' }),
    );
    await using opened = await openGateway(vllm.url, { limits: { max_sampled_tokens: 5 } });
    await tell(opened.session, 'one');
    expect(await tell(opened.session, 'two')).toBe(cut);
    expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([5, 2]);
    expect(opened.session.stats().budget).toBe('max_tokens');
    expect(await tell(opened.session, 'three')).toEqual([
      ...refusals.tokens,
      "this episode's budget of 5 sampled tokens is used up",
    ]);
    expect(vllm.bodies).toHaveLength(2);
    expect(opened.session.stats()).toMatchObject({ budget: 'max_tokens', failure: null });
    const [, last] = await opened.session.finish();
    expect(last).toMatchObject({ fate: 'delivered', finish_reason: 'length', max_tokens: 2 });
  });

  test('context: the last call is cut to the room that is left, what does not fit is told with both numbers', async () => {
    await using vllm = await FakeVllm.start();
    let counted = 990;
    vllm.tokenize = () => ({ count: counted, tokens: [] });
    await using opened = await openGateway(vllm.url, {
      limits: { context_tokens: 1000, max_output_tokens: 50 },
    });
    await tell(opened.session, 'x'.repeat(980));
    expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([10]);
    counted = 1200;
    const told = await tell(opened.session, 'x'.repeat(981));
    expect(told.slice(0, 2)).toEqual(refusals.context);
    expect(told[2]).toMatch(/1200.*1000|1000.*1200/);
    expect(vllm.bodies).toHaveLength(1);
    expect(opened.session.stats()).toMatchObject({ budget: 'context_overflow', failure: null });
  });

  test('seconds: a call that is on its way is answered, the next is refused', async () => {
    const gated = gate();
    await using vllm = await FakeVllm.start(gated.play);
    await using opened = await openGateway(vllm.url, { limits: { agent_seconds: 0.3 } });
    const answer = tell(opened.session, 'one');
    await vllm.asked(1);
    const startedAt = performance.now();
    await until(() => performance.now() - startedAt > 300, 'the time is used up');
    gated.open();
    expect(typeof (await answer)).toBe('string');
    expect(await tell(opened.session, 'two')).toEqual([
      ...refusals.time,
      "this episode's time of 0.3 seconds is used up",
    ]);
    expect(vllm.bodies).toHaveLength(1);
    expect(opened.session.stats()).toMatchObject({ budget: 'timeout', failure: null });
  });
});

describe('which budget ended an episode', () => {
  const tooLong = fault(
    400,
    "This model's maximum context length is 80 tokens and your request has 90 input tokens",
  );
  const subagent = { agent_id: 'a1', role: 'subagent' } as const;
  const curl = { agent_id: 'foreign', role: 'auxiliary', foreign: true } as const;

  test('is the first that was used up', async () => {
    await using vllm = await FakeVllm.start(sample({ ids: [1, 2, 3], finish: 'length' }));
    await using opened = await openGateway(vllm.url, { limits: { max_sampled_tokens: 3, max_turns: 1 } });
    await ask(opened.session, 'one');
    expect(await ask(opened.session, 'two')).toBe('turn_budget');
    expect(opened.session.stats().budget).toBe('max_tokens');
  });

  test.each([
    ['a subagent', subagent],
    ['a call past the agent', curl],
  ])('is not the context of %s: the main agent is told and goes on', async (_name, caller) => {
    await using vllm = await FakeVllm.start(tooLong, sample());
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 1 } });
    expect(await ask(opened.session, 'too long', caller)).toBe('context_overflow');
    expect(opened.session.stats().budget).toBeNull();
    expect(await ask(opened.session, 'short')).toBe('end');
    expect(await ask(opened.session, 'more')).toBe('turn_budget');
    expect(opened.session.stats().budget).toBe('max_turns');
  });

  test('is not a context that the agent found a way out of', async () => {
    await using vllm = await FakeVllm.start(tooLong, sample());
    await using opened = await openGateway(vllm.url);
    expect(await ask(opened.session, 'too long')).toBe('context_overflow');
    expect(opened.session.stats().budget).toBe('context_overflow');
    expect(await ask(opened.session, 'compacted')).toBe('end');
    expect(opened.session.stats().budget).toBeNull();
  });

  test('is a used-up one before a full context', async () => {
    await using vllm = await FakeVllm.start(tooLong, sample());
    await using opened = await openGateway(vllm.url, { limits: { max_sampled_tokens: 3 } });
    await ask(opened.session, 'too long');
    await ask(opened.session, 'from a subagent', subagent);
    expect(await ask(opened.session, 'more')).toBe('token_budget');
    expect(opened.session.stats().budget).toBe('max_tokens');
  });
});

test('subagents go on after the last turn of the main agent, and end their calls within what was set aside for them', async () => {
  const gated = gate({ ids: [1, 2, 3, 4] });
  await using vllm = await FakeVllm.start(sample({ ids: [1, 2] }), gated.play, gated.play, sample());
  await using opened = await openGateway(vllm.url, {
    limits: { max_turns: 1, max_sampled_tokens: 12, max_output_tokens: 5 },
  });
  const { session } = opened;
  await ask(session, 'main');
  const calls = ['a1', 'a2', 'a3'].map((agent_id) => ask(session, agent_id, { agent_id, role: 'subagent' }));
  await vllm.asked(3);
  expect(await ask(session, 'main again')).toBe('turn_budget');
  // Ten of ten tokens are set aside: the third waits until two of them turn out not to be needed.
  expect(vllm.bodies).toHaveLength(3);
  gated.open();
  expect(await Promise.all(calls)).toEqual(['end', 'end', 'end']);
  expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([5, 5, 5, 2]);
  expect(session.stats().budget).toBe('max_turns');
});

test('what the engine itself cut short takes nothing of the budget of tokens', async () => {
  await using vllm = await FakeVllm.start(
    sample({ ids: [1, 2, 3, 4], finish: 'abort' }),
    sample({ ids: [1, 2, 3] }),
    (_request, response, body) => json(response, 200, completion({ ids: Array(body.max_tokens).fill(1) })),
  );
  await using opened = await openGateway(vllm.url, { limits: { max_sampled_tokens: 5 } });
  expect(await ask(opened.session, 'one')).toBe('end');
  expect(await ask(opened.session, 'two')).toBe('end');
  expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([5, 5, 2]);
  expect(opened.session.stats()).toMatchObject({ completion_tokens: 9, discarded_tokens: 4 });
  expect(await ask(opened.session, 'three')).toBe('token_budget');
});

describe('the room in the context', () => {
  test('is looked at only where it could matter', async () => {
    await using vllm = await FakeVllm.start();
    let asked = 0;
    vllm.tokenize = () => ({ count: ++asked + 900, tokens: [] });
    await using opened = await openGateway(vllm.url, {
      limits: { context_tokens: 1000, max_output_tokens: 50 },
    });
    await messages(opened.session, 'short');
    expect(asked).toBe(0);
    await messages(opened.session, 'x'.repeat(980));
    expect(asked).toBe(1);
  });

  test('is not counted again as far as the engine counted it', async () => {
    await using vllm = await FakeVllm.start(sample({ content: 'x'.repeat(900) }));
    let asked = 0;
    vllm.tokenize = () => ({ count: ++asked, tokens: [] });
    await using opened = await openGateway(vllm.url, {
      limits: { context_tokens: 1200, max_output_tokens: 50 },
    });
    const first = { role: 'user', content: 'x'.repeat(900) };
    await messages(opened.session, [first]);
    await messages(opened.session, [
      first,
      { role: 'assistant', content: 'x'.repeat(900) },
      { role: 'user', content: 'more' },
    ]);
    expect(vllm.bodies).toHaveLength(2);
    expect(asked).toBe(0);
  });

  test('is learnt from the engine’s own words where its context is smaller than ours', async () => {
    const words = (limit: number): string =>
      `This model's maximum context length is ${limit} tokens and your request has 80 input tokens`;
    await using vllm = await FakeVllm.start(fault(400, words(100)), sample(), fault(400, words(80)));
    await using opened = await openGateway(vllm.url);
    expect((await messages(opened.session, 'one')).status).toBe(200);
    expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([100, 20]);
    expect((await messages(opened.session, 'two')).status).toBe(400);
    expect(opened.session.stats().budget).toBe('context_overflow');
  });
});
