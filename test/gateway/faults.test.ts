import { describe, expect, test } from 'vitest';
import type { PolicyState } from '../../src/gateway/policy-state.ts';
import { until } from '../support/wait.ts';
import { completion, FakeVllm, fault, gate, hang, json, sample, type Play } from './support/fake-vllm.ts';
import { messages, openGateway } from './support/open-gateway.ts';

/** Half an answer, then a broken connection. */
const diesMidBody: Play = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('{"choices":[', () => response.destroy());
};

/** A policy that a test pauses, resumes and gives versions. */
class TestState implements PolicyState {
  readonly source = 'pushed' as const;
  isPaused = false;
  current = 1;
  changes = 0;
  #waiting: (() => void)[] = [];
  version = (): number => this.current;
  paused = (): boolean => this.isPaused;
  unpausedChanges = (): number => this.changes;
  resume(): void {
    this.isPaused = false;
    for (const each of this.#waiting.splice(0)) each();
  }
  resumed(signal: AbortSignal): Promise<void> {
    if (!this.isPaused) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waiting.push(resolve);
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
}

describe('a policy that fails for a while', () => {
  test('429, 5xx and broken connections are tried again, and only the good answer is recorded', async () => {
    await using vllm = await FakeVllm.start(
      fault(429, 'busy', { 'retry-after': '0.01' }),
      fault(500),
      diesMidBody,
      (_request, response) => json(response, 200, 'no json'),
      sample({ content: 'at last' }),
    );
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi');
    expect(await response.json()).toMatchObject({ content: [{ text: 'at last' }] });
    expect(vllm.bodies).toHaveLength(5);
    const records = await opened.session.finish();
    expect(records).toHaveLength(1);
    expect(records[0]).toMatchObject({ fate: 'delivered', held_ms: 0 });
  });

  test('asked to be left alone for a century, it is not asked again at once', async () => {
    await using vllm = await FakeVllm.start(fault(429, 'busy', { 'retry-after': '3153600000' }));
    await using opened = await openGateway(vllm.url, { limits: { turn_seconds: 0.5 } });
    expect((await messages(opened.session, 'hi')).status).toBe(503);
    expect(vllm.bodies).toHaveLength(1);
    expect(opened.session.stats().failure).toMatchObject({ class: 'infra', code: 'policy_turn_deadline' });
  });

  test('garbage from its tokenizer is tried again, and is no word on its template', async () => {
    await using vllm = await FakeVllm.start();
    let asked = 0;
    vllm.tokenize = (body) =>
      ++asked === 1
        ? null
        : { count: body.messages.length, tokens: (body.messages as unknown[]).map((_each, at) => at) };
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, [
      { role: 'user', content: 'hi' },
      { role: 'system', content: 'note' },
      { role: 'user', content: 'go on' },
    ]);
    expect(response.status).toBe(200);
  });

  test('out of reach it holds the call, and the hold is not the turn’s time', async () => {
    await using vllm = await FakeVllm.start();
    await vllm.stop();
    await using opened = await openGateway(vllm.url, { limits: { turn_seconds: 60 } });
    const answer = messages(opened.session, 'hi');
    await until(() => opened.session.stats().hold_ms > 100, 'the call is held');
    await vllm.restart();
    expect((await answer).status).toBe(200);
    const stats = opened.session.stats();
    expect(stats.model_ms).toBeLessThan(stats.hold_ms);
    expect(stats.longest_call_ms).toBeLessThan(stats.hold_ms);
    expect(stats.failure).toBeNull();
    expect((await opened.session.finish())[0]!.held_ms).toBeGreaterThan(100);
  });

  test('an episode moves to another replica when its own dies, and says so', async () => {
    await using first = await FakeVllm.start();
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url]);
    await messages(opened.session, 'one');
    await first.stop();
    expect((await messages(opened.session, 'two')).status).toBe(200);
    const [one, two] = await opened.session.finish();
    expect(one).toMatchObject({ replica: first.url, notes: [] });
    expect(two).toMatchObject({ replica: second.url, notes: ['replica_moved'] });
  });

  test('an episode stays on its replica, and the next one takes the less loaded', async () => {
    await using first = await FakeVllm.start();
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url]);
    await messages(opened.session, 'one');
    await messages(opened.session, 'two');
    await messages(await opened.open(), 'other');
    expect([first.bodies.length, second.bodies.length]).toEqual([2, 1]);
  });
});

describe('a policy that fails for good', () => {
  test.each([
    ['5xx', [fault(500, 'oops')], /within 0.5 s.*HTTP 500: oops/],
    ['no answer', [hang], /within 0.5 s/],
  ] as const)('%s past turn_seconds is the episode’s infra failure', async (_name, plays, message) => {
    await using vllm = await FakeVllm.start(...plays);
    await using opened = await openGateway(vllm.url, { limits: { turn_seconds: 0.5 } });
    const response = await messages(opened.session, 'hi');
    expect(response.status).toBe(503);
    expect(response.headers.get('x-should-retry')).toBe('false');
    const { failure } = opened.session.stats();
    expect(failure).toMatchObject({
      class: 'infra',
      phase: 'agent',
      code: 'policy_turn_deadline',
      retryable: true,
    });
    expect(failure!.message).toMatch(message);
    expect(opened.session.failed.aborted).toBe(true);
    expect((await messages(opened.session, 'more')).status).toBe(503);
    expect(await opened.session.finish()).toMatchObject([{ fate: 'failed', token_ids: null, answer: null }]);
  });

  test('out of reach longer than hold_seconds: infra', async () => {
    await using opened = await openGateway('http://127.0.0.1:9', { limits: { hold_seconds: 0.3 } });
    expect((await messages(opened.session, 'hi')).status).toBe(503);
    expect(opened.session.stats().failure).toMatchObject({ code: 'policy_hold_deadline' });
  });

  test('a key it does not take: infra at once, and the agent is not told the status', async () => {
    await using vllm = await FakeVllm.start(fault(401, 'bad key'));
    await using opened = await openGateway(vllm.url);
    expect((await messages(opened.session, 'hi')).status).toBe(503);
    expect(opened.session.stats().failure).toMatchObject({ code: 'policy_misconfigured' });
    expect(vllm.bodies).toHaveLength(1);
  });

  test('a request it refuses: the agent’s own error, not tried again, not infra', async () => {
    await using vllm = await FakeVllm.start(fault(400, 'Expecting value'));
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
    // The CLI sends what got a 400 once more: the policy is not asked again.
    expect((await messages(opened.session, 'hi')).status).toBe(400);
    expect(vllm.bodies).toHaveLength(1);
    expect(opened.session.stats()).toMatchObject({ failure: null, calls: 1, main_turns: 0 });
  });
});

describe('a paused policy', () => {
  test('holds new calls until it is resumed', async () => {
    await using vllm = await FakeVllm.start();
    const policyState = new TestState();
    policyState.isPaused = true;
    await using opened = await openGateway(vllm.url, {
      gateway: { policyState },
      limits: { turn_seconds: 60 },
    });
    const answer = messages(opened.session, 'hi');
    await until(() => opened.session.stats().hold_ms > 50, 'the call is held');
    expect(vllm.bodies).toHaveLength(0);
    policyState.current = 2;
    policyState.resume();
    expect((await answer).status).toBe(200);
    expect((await opened.session.finish())[0]).toMatchObject({ version_start: 2, version_end: 2, notes: [] });
  });

  test('stops the clock of a call in flight, and versions are stamped at both ends', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    const policyState = new TestState();
    await using opened = await openGateway(vllm.url, {
      gateway: { policyState },
      limits: { turn_seconds: 60 },
    });
    const answer = messages(opened.session, 'hi');
    await vllm.asked(1);
    policyState.isPaused = true;
    await until(() => opened.session.stats().hold_ms > 150, 'the clock of the call is held');
    policyState.current = 2;
    policyState.resume();
    open();
    expect((await answer).status).toBe(200);
    expect((await opened.session.finish())[0]).toMatchObject({ version_start: 1, version_end: 2, notes: [] });
  });

  test('an answer that the engine aborted is set aside and sampled anew', async () => {
    await using vllm = await FakeVllm.start(
      sample({ finish: 'abort', ids: [1, 2] }),
      sample({ content: 'whole' }),
    );
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi');
    expect(await response.json()).toMatchObject({ content: [{ text: 'whole' }] });
    expect(opened.session.stats()).toMatchObject({ calls: 2, main_turns: 1, discarded_tokens: 2 });
    expect(await opened.session.finish()).toMatchObject([
      { fate: 'aborted', finish_reason: 'abort', reasons: ['aborted'], new_messages: [{ content: 'hi' }] },
      { fate: 'delivered', reasons: [], new_messages: [] },
    ]);
  });

  test('a version set without a pause makes calls in flight uncertain', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    const policyState = new TestState();
    await using opened = await openGateway(vllm.url, { gateway: { policyState } });
    const answer = messages(opened.session, 'hi');
    await vllm.asked(1);
    policyState.changes++;
    open();
    await answer;
    expect((await opened.session.finish())[0]!.notes).toEqual(['version_uncertain']);
  });
});

test('what the arrays cannot show is said: images in the prompt, guided decoding, seeds of its own for each call', async () => {
  await using vllm = await FakeVllm.start((_request, response) => json(response, 200, completion()));
  await using opened = await openGateway(vllm.url, { sampling: { seed: 1 } });
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QQ==' } };
  await messages(opened.session, [{ role: 'user', content: [image] }], {
    tools: [{ name: 'x', input_schema: {} }],
    tool_choice: { type: 'any' },
  });
  await messages(opened.session, 'plain');
  const [first, second] = await opened.session.finish();
  expect(first).toMatchObject({ reasons: ['multimodal_inputs_absent'], notes: ['guided_decoding'] });
  expect(second).toMatchObject({ reasons: [], notes: [] });
  expect(new Set(vllm.bodies.map((body) => body.seed)).size).toBe(2);
});
