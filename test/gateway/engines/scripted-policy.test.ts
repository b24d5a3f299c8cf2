import { describe, expect, test } from 'vitest';
import { resolveSampling, type ChatMessage } from '../../../src/contracts/index.ts';
import { createEngine } from '../../../src/gateway/engines/create-engine.ts';
import type { EngineAnswer, EngineRequest } from '../../../src/gateway/engines/engine.ts';
import { Replica } from '../../../src/gateway/policy/replica.ts';
import { probePolicy } from '../../../src/gateway/probe.ts';
import { callReasons } from '../../../src/trajectory/call-checks.ts';
import {
  parseScripts,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../../src/policy/index.ts';
import { until } from '../../support/wait.ts';
import { FakeVllm } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { said, sse, vllmChunks, vllmStreamed } from './support/mouths.ts';

const turns = [
  {
    thinking: 'Let me think: 1 < 2 & "ü".',
    text: 'I look.',
    tool_calls: [
      { name: 'Bash', arguments: '{ "command":"ls -l \\u00e9 😀" }' },
      { name: 'Bash', arguments: { command: 'pwd', n: 1 } },
    ],
  },
  { text: 'Everything is done. 😀' },
];
const tools = [
  { type: 'function' as const, function: { name: 'Bash', parameters: { type: 'object', properties: {} } } },
];
const task: ChatMessage[] = [
  { role: 'system', content: 'You work.' },
  { role: 'user', content: 'Task A' },
];

async function start(options: Partial<ScriptedPolicyOptions>): Promise<ScriptedPolicy> {
  const scripts = parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task A', turns }] });
  return startScriptedPolicy({ scripts, seed: 5, model: 'policy', ...options });
}

const of = (messages: readonly ChatMessage[]): EngineRequest => ({
  messages,
  tools,
  sampling: resolveSampling({}),
  seed: null,
  max_tokens: 500,
  upstreamId: (id) => id,
});

const kinds = [
  ['vLLM', 'vllm', false],
  ['vLLM, streamed', 'vllm', true],
  ['SGLang', 'sglang', false],
] as const;

/** What a conversation goes on with after an answer with tool calls. */
function after(history: readonly ChatMessage[], answer: EngineAnswer): ChatMessage[] {
  const calls = answer.tool_calls.map(({ id, name, arguments: given }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: given },
  }));
  return [
    ...history,
    {
      role: 'assistant',
      content: answer.content,
      ...(answer.reasoning === null ? {} : { reasoning: answer.reasoning }),
      tool_calls: calls,
    },
    ...calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'ok' })),
  ];
}

describe.each(kinds)('%s, as the scripted policy speaks it', (_name, engine, streaming) => {
  test('gives what was sampled, to the bit, and goes on from it', async () => {
    await using policy = await start({ engine });
    const replica = new Replica(policy.url, undefined);
    const spoken = createEngine(engine, { model: 'policy', streaming });
    const { signal } = new AbortController();
    const first = await spoken.complete(replica, of(task), signal);
    const second = await spoken.complete(replica, of(after(task, first)), signal);
    await replica.close();

    expect(first).toMatchObject({
      reasoning: 'Let me think: 1 < 2 & "ü".',
      content: 'I look.',
      finish_reason: 'tool_calls',
      reasons: [],
    });
    expect(first.tool_calls.map(({ name, arguments: given }) => [name, given])).toEqual([
      ['Bash', '{ "command":"ls -l \\u00e9 😀" }'],
      ['Bash', '{"command": "pwd", "n": 1}'],
    ]);
    expect(second).toMatchObject({ content: 'Everything is done. 😀', finish_reason: 'stop' });
    for (const [at, answer] of [first, second].entries()) {
      const sampled = policy.samples()[at]!;
      expect(Array.from(answer.token_ids!)).toEqual(sampled.token_ids);
      expect(Array.from(answer.prompt_token_ids!)).toEqual(sampled.prompt_token_ids);
      expect(Array.from(answer.logprobs!)).toEqual(sampled.logprobs);
      expect(answer.usage).toMatchObject({
        prompt_tokens: sampled.prompt_token_ids.length,
        completion_tokens: sampled.token_ids.length,
      });
    }
    const before = [...first.prompt_token_ids!, ...first.token_ids!];
    expect(Array.from(second.prompt_token_ids!.subarray(0, before.length))).toEqual(before);
  });

  test('an episode through the gateway is trainable, and stays so under no fault of ids or logprobs', async () => {
    await using policy = await start({ engine });
    const sound = { engine, streaming, logprobsMode: 'processed' as const };
    const faults = [
      [{ kind: 'short_ids' }, ['length_mismatch']],
      [{ kind: 'no_prompt_ids' }, ['prompt_ids_missing']],
      [{ kind: 'no_logprobs' }, ['bad_logprob']],
      [{ kind: 'logprob', value: 'nan' }, ['bad_logprob']],
      [{ kind: 'logprob', value: 'null' }, ['bad_logprob']],
      [{ kind: 'logprob', value: 'default' }, ['bad_logprob']],
      [{ kind: 'logprob', value: 'positive' }, ['bad_logprob']],
      [{ kind: 'logprob', value: 'missing' }, ['length_mismatch']],
      [{ kind: 'usage' }, ['usage_mismatch']],
      [{ kind: 'usage', field: 'prompt_tokens', by: -1 }, ['usage_mismatch']],
      [{ kind: 'no_ids' }, ['ids_missing']],
    ] as const;
    await using opened = await openGateway(policy.url, { policy: sound });
    for (const [fault] of [[null], ...faults]) {
      if (fault !== null) policy.fault(fault);
      const response = await messages(opened.session, 'Task A');
      expect(response.status).toBe(200);
      await response.text();
    }
    const [clean, ...spoilt] = (await opened.session.finish()).map(callReasons);
    expect(clean).toEqual([]);
    for (const [at, [, reasons]] of faults.entries()) {
      expect(spoilt[at]).toEqual(expect.arrayContaining([...reasons]));
    }
  });

  test('faults that leave no answer are tried again, and only a whole answer is delivered', async () => {
    await using policy = await start({ engine });
    await using opened = await openGateway(policy.url, { policy: { engine, streaming } });
    policy.fault(
      [
        { kind: 'status', status: 429, retry_after: 0.01 },
        { kind: 'die' },
        { kind: 'stream_error' },
        { kind: 'abort' },
      ].map((fault, at) => ({ ...fault, skip: at })) as never,
    );
    const response = await messages(opened.session, 'Task A');
    expect(response.status).toBe(200);
    const records = await opened.session.finish();
    const last = records.at(-1)!;
    expect(last).toMatchObject({ fate: 'delivered' });
    expect(callReasons(last)).toEqual([]);
    // Streamed, what came before each cut is known; whole, only what the engine itself gave up.
    const lost = records.slice(0, -1);
    expect(lost).toHaveLength(streaming ? 3 : 1);
    for (const call of lost) {
      expect(call).toMatchObject({ fate: 'aborted' });
      expect(call.token_ids!.length).toBeGreaterThan(0);
      expect(callReasons(call)).toContain('aborted');
    }
    expect(opened.session.stats().discarded_tokens).toBe(
      lost.reduce((sum, call) => sum + call.token_ids!.length, 0),
    );
  });

  test('a client that leaves ends the sampling', async () => {
    await using policy = await start({ engine, tokenMs: 40 });
    await using opened = await openGateway(policy.url, {
      policy: { engine, streaming },
      gateway: { graceSeconds: 0 },
    });
    const leave = new AbortController();
    const answer = messages(opened.session, 'Task A', {}, { signal: leave.signal });
    await until(() => policy.samples().length === 1, 'the policy samples');
    leave.abort();
    await expect(answer).rejects.toThrow();
    if (engine === 'sglang') await until(() => policy.aborts().length === 1, 'the call is aborted by its id');
    await until(() => opened.session.stats().calls === 1, 'the call is recorded');
    const records = await opened.session.finish();
    expect(records).toMatchObject([{ fate: 'aborted' }]);
    expect(callReasons(records[0]!)).toContain('aborted');
  });

  test('the context’s end is told in its own words, and understood', async () => {
    await using policy = await start({ engine, maxModelLen: 60 });
    const replica = new Replica(policy.url, undefined);
    const spoken = createEngine(engine, { model: 'policy', streaming });
    const { signal } = new AbortController();
    const short = { ...of(task), tools: [] };
    for (const request of [short, { ...short, messages: [{ role: 'user', content: 'x y '.repeat(99) }] }]) {
      const error = (await spoken
        .complete(replica, request as EngineRequest, signal)
        .catch((each: unknown) => each)) as { fault: string; tokens: { prompt: number; limit: number } };
      expect(error).toMatchObject({ fault: 'overflow', tokens: { limit: 60 } });
      expect(error.tokens.prompt).toBe(await spoken.countTokens(replica, request as EngineRequest, signal));
    }
    await replica.close();
  });

  test('the probe finds what it is', async () => {
    await using policy = await start({ engine });
    expect(await probePolicy({ url: policy.url, model: null })).toMatchObject({
      engine,
      model: 'policy',
      ids: true,
      prompt_ids: true,
      logprobs: true,
      streaming_ids: engine === 'vllm',
      logprobs_mode: 'processed',
      tools: true,
      system_in_place: true,
      missing_flags: [],
    });
  });
});

test('streamed, the tokens that a client left behind are kept as aborted and counted', async () => {
  let written = false;
  await using vllm = await FakeVllm.start((_request, response) => {
    response.writeHead(200, { 'content-type': vllmStreamed.type });
    response.write(
      sse(vllmChunks(said()).slice(0, 3)).replace('data: [DONE]\n\n', ''),
      () => (written = true),
    );
  });
  await using opened = await openGateway(vllm.url, {
    policy: { streaming: true },
    gateway: { graceSeconds: 0 },
  });
  const leave = new AbortController();
  const answer = messages(opened.session, 'hi', {}, { signal: leave.signal });
  await until(() => written, 'two tokens are on their way');
  leave.abort();
  await expect(answer).rejects.toThrow();
  await until(() => vllm.aborted === 1, 'the policy is told');
  const records = await opened.session.finish();
  expect(records).toMatchObject([{ fate: 'aborted', token_ids: Int32Array.of(11, 12) }]);
  expect(callReasons(records[0]!)).toContain('aborted');
  expect(opened.session.stats()).toMatchObject({ completion_tokens: 2, discarded_tokens: 2 });
});

test('streamed, a turn’s deadline keeps what had come as aborted, and the call itself has failed', async () => {
  await using vllm = await FakeVllm.start((_request, response) => {
    response.writeHead(200, { 'content-type': vllmStreamed.type });
    response.write(sse(vllmChunks(said()).slice(0, 3)).replace('data: [DONE]\n\n', ''));
  });
  await using opened = await openGateway(vllm.url, {
    policy: { streaming: true },
    limits: { turn_seconds: 1 },
  });
  expect((await messages(opened.session, 'hi')).status).toBe(503);
  const records = await opened.session.finish();
  expect(records).toMatchObject([
    { fate: 'aborted', token_ids: Int32Array.of(11, 12) },
    { fate: 'failed', token_ids: null },
  ]);
  expect(opened.session.stats().failure).toMatchObject({ code: 'policy_turn_deadline' });
});

describe('SGLang’s /generate, as the scripted policy speaks it', () => {
  test('goes on from recorded ids: the prompt is what was sampled, under a template that rewrites history too', async () => {
    await using policy = await start({ engine: 'sglang', template: 'hostile' });
    const replica = new Replica(policy.url, undefined);
    const engine = createEngine('sglang', { model: 'policy', callFormat: 'hermes' });
    const { signal } = new AbortController();
    const first = await engine.complete(replica, of(task), signal);
    // The tail that the template writes behind the turn, as a rendering of the whole would end.
    const whole = await engine.complete(replica, of(after(task, first)), signal);
    const end = 258;
    const tail = Array.from(whole.prompt_token_ids!);
    const behind = tail.slice(tail.indexOf(end, first.prompt_token_ids!.length) + 1);
    const prompt = Int32Array.from([...first.prompt_token_ids!, ...first.token_ids!, ...behind]);
    const second = await engine.complete(replica, { ...of([]), prompt_token_ids: prompt }, signal);
    await replica.close();

    expect(second).toMatchObject({ content: 'Everything is done. 😀', finish_reason: 'stop', reasons: [] });
    expect(second.prompt_token_ids).toEqual(prompt);
    const sampled = policy.samples()[2]!;
    expect(sampled.prompt_token_ids).toEqual(Array.from(prompt));
    expect(Array.from(second.token_ids!)).toEqual(sampled.token_ids);
    expect(Array.from(second.logprobs!)).toEqual(sampled.logprobs);
  });

  test('reads thinking and calls out of the text as the chat route does', async () => {
    await using policy = await start({ engine: 'sglang' });
    const replica = new Replica(policy.url, undefined);
    const engine = createEngine('sglang', { model: 'policy', callFormat: 'hermes' });
    const { signal } = new AbortController();
    const seeded = { ...of(task), seed: 11 };
    const chat = await engine.complete(replica, seeded, signal);
    const prompt_token_ids = chat.prompt_token_ids!;
    const generated = await engine.complete(replica, { ...seeded, prompt_token_ids }, signal);
    await replica.close();
    const plain = (answer: EngineAnswer): EngineAnswer => ({
      ...answer,
      tool_calls: answer.tool_calls.map((call) => ({ ...call, id: '' })),
    });
    expect(plain(generated)).toEqual(plain(chat));
  });
});
