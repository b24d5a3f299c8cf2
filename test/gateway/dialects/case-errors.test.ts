import { describe, expect, test } from 'vitest';
import { ChatError } from '../../../src/gateway/chat.ts';
import { anthropicDialect } from '../../../src/gateway/dialects/anthropic/dialect.ts';
import { FakeVllm, fault, hang, sample } from '../support/fake-vllm.ts';
import { events, messages, openGateway, post } from '../support/open-gateway.ts';

const overflow = (limit: number, prompt: number): string =>
  `This model's maximum context length is ${limit} tokens and your request has ${prompt} input tokens`;

describe.each([
  ['a unary request', false],
  ['a stream', true],
])('%s that fails', (_name, stream) => {
  test('50: at a prompt that is too long has the status and the words that end the CLI’s retries', async () => {
    await using vllm = await FakeVllm.start(fault(400, overflow(800, 900)));
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi', { stream });
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(await response.json()).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: 'Prompt is too long: 900 tokens > 800 maximum' },
    });
    expect(opened.session.stats().budget).toBe('context_overflow');
  });

  test('50: at prompt and max_tokens together is not told: max_tokens is fitted instead', async () => {
    await using vllm = await FakeVllm.start(fault(400, overflow(100, 80)), sample());
    await using opened = await openGateway(vllm.url);
    expect((await messages(opened.session, 'hi', { stream })).status).toBe(200);
    expect(vllm.bodies.map(({ max_tokens }) => max_tokens as number)).toEqual([100, 20]);
  });

  test('51: has Anthropic’s shape and types, and says that trying again cannot help', async () => {
    await using vllm = await FakeVllm.start(fault(422, 'bad field'));
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 1 } });
    const { session } = opened;
    const told = async (response: Response): Promise<unknown> => {
      expect(response.headers.get('x-should-retry')).toBe('false');
      const { type, error } = (await response.json()) as { type: string; error: { type: string } };
      return [response.status, type, error.type];
    };
    expect(await told(await messages(session, 'hi', { stream }))).toEqual([
      422,
      'error',
      'invalid_request_error',
    ]);
    expect(await told(await post(session, '/v1/messages', '{', {}))).toEqual([
      400,
      'error',
      'invalid_request_error',
    ]);
    expect(await told(await post(session, '/v1/nothing', {}))).toEqual([404, 'error', 'not_found_error']);
    const stranger = { headers: { authorization: 'Bearer nobody' } };
    expect(await told(await messages(session, 'hi', { stream }, stranger))).toEqual([
      401,
      'error',
      'authentication_error',
    ]);
  });

  test('51: a budget that is used up is a 402, because the CLI sends what got a 400 once more', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 1 } });
    await messages(opened.session, 'one', { stream });
    const response = await messages(opened.session, 'two', { stream });
    expect(response.status).toBe(402);
    expect(await response.json()).toEqual({
      type: 'error',
      error: {
        type: 'billing_error',
        message: "this episode's budget of 1 turn is used up",
      },
    });
  });

  test('51: a policy that is gone for good is a 503', async () => {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url, { limits: { turn_seconds: 0.2 } });
    const response = await messages(opened.session, 'hi', { stream });
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'api_error' } });
  });
});

test('49: an error inside a stream is an error event with nothing behind it', () => {
  const [event, ...more] = events(anthropicDialect.streamError(new ChatError('policy_unavailable', 'down')));
  expect(event).toEqual({
    event: 'error',
    data: { type: 'error', error: { type: 'api_error', message: 'down' } },
  });
  expect(more).toEqual([]);
});

test('51: every status has its type', () => {
  const type = (status: number): unknown =>
    (anthropicDialect.httpError(status, 'x').body as { error: { type: string } }).error.type;
  expect([400, 401, 402, 403, 404, 413, 415, 429, 500, 503, 529].map(type)).toEqual([
    'invalid_request_error',
    'authentication_error',
    'billing_error',
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
