import { describe, expect, test } from 'vitest';
import { FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { asked, askedMessages, refusal } from './through-gateway.ts';
import { assistant, text, user } from './turns.ts';

describe('the fields of a request', () => {
  test('16: stop sequences are stop strings; none is none, an empty one is refused', async () => {
    const five = ['a', 'b', 'c', 'd', '\n\n'];
    expect((await asked('x', { stop_sequences: five })).stop).toEqual(five);
    expect(await asked('x', { stop_sequences: [] })).not.toHaveProperty('stop');
    expect(await asked('x', { stop_sequences: null })).not.toHaveProperty('stop');
    expect(await refusal('x', { stop_sequences: ['a', ''] })).toBe('stop_sequences.1: must not be empty');
    expect(await refusal('x', { stop_sequences: [1] })).toBe('stop_sequences.0: must be a string');
  });

  test('17: max_tokens is a wish, bounded by the episode’s own limit, and fitted into the context', async () => {
    await using vllm = await FakeVllm.start();
    vllm.tokenize = () => ({ count: 990, tokens: [] });
    await using opened = await openGateway(vllm.url, {
      limits: { max_output_tokens: 50, context_tokens: 1000 },
    });
    await messages(opened.session, 'x', { max_tokens: 20 });
    await messages(opened.session, 'x', { max_tokens: 64_000 });
    await messages(opened.session, 'x'.repeat(980), { max_tokens: 64_000 });
    expect(vllm.bodies.map(({ max_tokens }) => max_tokens as number)).toEqual([20, 50, 10]);
    expect(await refusal('x', { max_tokens: 0 })).toBe('max_tokens: must be a positive whole number');
  });

  test('18: the agent’s sampling is ignored: the run’s own stands, in every field', async () => {
    const body = await asked('x', { temperature: 0, top_p: 0.1, top_k: 3, seed: 4, min_p: 0.5 });
    expect(body).toMatchObject({ temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 });
    expect(body).not.toHaveProperty('seed');
  });

  test('26: thinking is the policy’s own business, whatever the agent asks', async () => {
    const plain = await asked('x');
    for (const thinking of [
      { type: 'enabled', budget_tokens: 31_999 },
      { type: 'adaptive', display: 'updates' },
      { type: 'disabled' },
    ]) {
      expect(await asked('x', { thinking })).toEqual(plain);
    }
  });

  test('27: what means nothing here is ignored, never a 400, ?beta=true and beta headers included', async () => {
    const rest = {
      metadata: { user_id: '{"session_id":"s"}' },
      output_config: { effort: 'high', format: { type: 'json_schema', schema: {} } },
      service_tier: 3,
      container: 1,
      mcp_servers: [{}],
      betas: ['x'],
      speed: 'fast',
      inference_geo: 'moon',
      of_next_year: { a: [null] },
    };
    const headers = { 'anthropic-beta': 'claude-code-20250219,x', 'anthropic-version': '2023-06-01' };
    expect(await asked('x', rest, headers)).toEqual(await asked('x'));
  });

  test('28: context edits are ignored, and not claimed to have been applied', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const context_management = { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] };
    const body = (await (await messages(opened.session, 'x', { context_management })).json()) as object;
    expect(body).not.toHaveProperty('context_management');
    expect(vllm.bodies[0]).not.toHaveProperty('context_management');
  });

  test('54: any model’s name is answered by the one that is served, and side calls are kept apart', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const headers = { 'user-agent': 'claude-cli/2.1.332 (external)', 'x-claude-code-session-id': 's' };
    const call = async (model: string, more = {}): Promise<Response> =>
      messages(opened.session, 'x', { model }, { headers: { ...headers, ...more } });
    expect((await call('policy')).status).toBe(200);
    const side = await call('claude-haiku-4-5', { 'x-claude-code-request-class': 'auxiliary' });
    expect(await side.json()).toMatchObject({ model: 'claude-haiku-4-5' });
    expect(vllm.bodies.map(({ model }) => model as string)).toEqual(['policy', 'policy']);
    expect((await opened.session.finish()).map(({ role }) => role)).toEqual(['main', 'auxiliary']);
  });

  test('bad fields are refused by name, and nothing is asked', async () => {
    expect(await refusal([])).toBe('messages: must not be empty');
    expect(await refusal([user([{ type: 'hologram' }])])).toMatch(/^messages\.0\.content\.0\.type: /);
    expect(await refusal([user(null)])).toBe('messages.0.content: must be a list');
    expect(await refusal(['x'])).toBe('messages.0: must be an object');
    expect(await refusal('x', { model: 3 })).toBe('model: must be a string');
    expect(await refusal('x', { tools: {} })).toBe('tools: must be a list');
  });
});

describe('the system prompt', () => {
  const system = async (value: unknown, list: readonly unknown[] = [user('x')]): Promise<Loose> =>
    (await askedMessages(list, { system: value }))[0];

  test('19: blocks are joined by a fixed separator, cache marks are nothing', async () => {
    const marked = [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }, text(''), text('b')];
    expect(await system(marked)).toEqual({ role: 'system', content: 'a\n\nb' });
    expect(await system('a\n\nb')).toEqual(await system(marked));
    for (const nothing of ['', [], null, [text('')]]) {
      expect(await system(nothing)).toEqual({ role: 'user', content: 'x' });
    }
  });

  test('20: a billing header in front is stripped, and only there', async () => {
    const header = 'x-anthropic-billing-header: cc_version=2; cch=abc;';
    expect(await system([text(header), text('a')])).toEqual({ role: 'system', content: 'a' });
    expect(await system(`${header}\na`)).toEqual({ role: 'system', content: 'a' });
    expect(await system([text(header)])).toEqual({ role: 'user', content: 'x' });
    expect(await system([text(`see ${header}`)])).toEqual({ role: 'system', content: `see ${header}` });
  });

  const inline = [
    { role: 'system', content: 'lead' },
    user('x'),
    { role: 'system', content: [text('note')] },
    assistant('y'),
    user('z'),
  ];

  test('21: system messages in front join it; later ones stay in place where the template keeps them', async () => {
    await using vllm = await FakeVllm.start();
    vllm.tokenize = ({ messages: given }) => ({
      count: given.length,
      tokens: given.map((_: unknown, at: number) => at),
    });
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, inline, { system: 's' });
    expect(vllm.bodies[0].messages).toEqual([
      { role: 'system', content: 's\n\nlead' },
      { role: 'user', content: 'x' },
      { role: 'system', content: 'note' },
      { role: 'assistant', content: 'y' },
      { role: 'user', content: 'z' },
    ]);
  });

  test('21: and are folded into the message before them where it does not; never hoisted', async () => {
    expect(await askedMessages(inline, { system: 's' })).toEqual([
      { role: 'system', content: 's\n\nlead' },
      { role: 'user', content: 'x\n\nnote' },
      { role: 'assistant', content: 'y' },
      { role: 'user', content: 'z' },
    ]);
  });

  test('22: role system is taken, so that no agent has to send its request again without it', async () => {
    await using vllm = await FakeVllm.start(sample({ content: 'once' }));
    await using opened = await openGateway(vllm.url);
    expect((await messages(opened.session, inline)).status).toBe(200);
    expect(opened.session.stats().calls).toBe(1);
  });

  test('23: roles of newer clients are mapped, unknown ones refused', async () => {
    const list = [
      { role: 'developer', content: 'd' },
      user('a'),
      { role: 'ctx', content: 'c' },
      { role: 'msg', content: 'm' },
    ];
    expect(await askedMessages(list)).toEqual([
      { role: 'system', content: 'd' },
      { role: 'user', content: 'a' },
      { role: 'user', content: 'c' },
      { role: 'user', content: 'm' },
    ]);
    expect(await refusal([user('a'), { role: 'wizard', content: 'x' }])).toBe(
      'messages.1.role: must be user, assistant or system, not "wizard"',
    );
  });
});
