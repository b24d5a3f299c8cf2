import { expect } from 'vitest';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { FakeVllm, type Loose, type Sampled } from '../support/fake-vllm.ts';
import { events, messages, openGateway, post, type Event } from '../support/open-gateway.ts';
import { streams } from '../support/streamed.ts';
import { foldEvents } from './strict-stream.ts';

/** What the policy is asked for a request of the Anthropic API, which is the same whether the agent streams or not. */
export async function asked(
  content: string | readonly unknown[],
  rest: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<Loose> {
  await using vllm = await FakeVllm.start();
  // A template that raises at a system message which does not come first.
  vllm.tokenize = (body) => (body.messages.length > 1 ? null : { count: 1, tokens: [1] });
  await using opened = await openGateway(vllm.url);
  for (const [stream, session] of [
    [false, opened.session],
    [true, await opened.open()],
  ] as const) {
    const response = await messages(session, content, { ...rest, stream }, { headers });
    expect(await response.text()).toContain('hello');
    expect(response.status).toBe(200);
  }
  expect(vllm.bodies[1]).toEqual(vllm.bodies[0]);
  return vllm.bodies[0];
}

/** The messages of what the policy is asked. */
export async function askedMessages(
  list: readonly unknown[],
  rest: Record<string, unknown> = {},
): Promise<Loose[]> {
  return (await asked(list, rest)).messages as Loose[];
}

/** The words with which a request is refused, by a 400 and before the policy is asked. */
export async function refusal(
  content: string | readonly unknown[],
  rest: Record<string, unknown> = {},
): Promise<string> {
  await using vllm = await FakeVllm.start();
  await using opened = await openGateway(vllm.url);
  const response = await messages(opened.session, content, rest);
  const body = (await response.json()) as Loose;
  expect(body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } });
  expect(response.status).toBe(400);
  expect(vllm.bodies).toEqual([]);
  expect(opened.session.stats().calls).toBe(0);
  return body.error.message as string;
}

export interface Answered {
  /** The answer to a request without `stream`. */
  readonly unary: Loose;
  readonly events: readonly Event[];
}

/**
 * How an agent of the Anthropic API is answered, both ways. Whatever was sampled, the stream is in order and says the
 * same as the unary answer, and so does one that is passed on while it comes.
 */
export async function answered(sampled: Sampled, model = 'm'): Promise<Answered> {
  await using vllm = await FakeVllm.start(streams(sampled));
  await using opened = await openGateway(vllm.url);
  await using passing = await openGateway(vllm.url, { policy: { streaming: true } });
  const ask = async (stream: boolean, by = opened): Promise<string> => {
    const response = await messages(await by.open(), 'hi', { stream, model });
    expect(response.status).toBe(200);
    return response.text();
  };
  const unary = JSON.parse(await ask(false));
  const stream = events(await ask(true));
  for (const told of [stream, events(await ask(true, passing))]) {
    const { id, content, ...folded } = foldEvents(told);
    expect(id).toMatch(/^msg_/);
    expect({ ...folded, content: withoutToolIds(content) }).toEqual({
      ...unary,
      id: undefined,
      content: withoutToolIds(unary.content),
    });
  }
  return { unary, events: stream };
}

/** Tool ids are unique in an episode, so that two sessions give different ones. */
function withoutToolIds(content: readonly Loose[]): unknown[] {
  return content.map((block) => (block.type === 'tool_use' ? { ...block, id: 'toolu' } : block));
}

/** A call of the OpenAI API. */
export async function askOpenai(session: GatewaySession, body: Record<string, unknown>): Promise<Response> {
  return post(session, '/v1/chat/completions', {
    model: 'gpt',
    messages: [{ role: 'user', content: 'hi' }],
    ...body,
  });
}
