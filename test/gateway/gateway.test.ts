import { existsSync, readdirSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/gateway/gateway.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { FakeVllm, sample } from './support/fake-vllm.ts';
import { messages, openGateway, post } from './support/open-gateway.ts';

/** Status and body of a request over a Unix socket. */
async function overSocket(
  socketPath: string,
  bearer: string,
  body: unknown,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        socketPath,
        path: '/v1/messages?beta=true',
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}` },
        agent: false,
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

const hello = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };

describe('a session', () => {
  test('records a call with the engine’s own ids, logprobs as float32, and its delivery', async () => {
    await using vllm = await FakeVllm.start(
      sample({ ids: [7, 8], logprobs: [-0.1, -2.7182818], prompt: [1, 2, 3] }),
    );
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi', { stream: false });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      type: 'message',
      model: 'm',
      content: [{ type: 'text', text: 'hello' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 3, output_tokens: 2 },
    });
    const [call, ...more] = await opened.session.finish();
    expect(more).toEqual([]);
    expect(call).toMatchObject({
      index: 0,
      agent_id: 'main',
      role: 'main',
      fate: 'delivered',
      prompt_token_ids: Int32Array.of(1, 2, 3),
      token_ids: Int32Array.of(7, 8),
      logprobs: Float32Array.of(-0.1, -2.7182818),
      usage: { prompt_tokens: 3, completion_tokens: 2 },
      finish_reason: 'stop',
      max_tokens: 100,
      replica: vllm.url,
      reasons: [],
      notes: [],
      new_messages: [{ role: 'user', content: 'hi' }],
      answer: { role: 'assistant', content: 'hello' },
    });
  });

  test('builds the policy’s request from an allow list with every sampling field explicit', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, {
      policy: { apiKey: 'policy-key' },
      sampling: { temperature: 0.7, seed: 5 },
    });
    await messages(opened.session, 'hi', {
      temperature: 0,
      top_p: 0.1,
      metadata: { user_id: 'x' },
      thinking: { type: 'adaptive' },
      context_management: {},
      output_config: { effort: 'high' },
      service_tier: 'auto',
      logit_bias: { 1: 100 },
      max_tokens: 64_000,
    });
    const { seed, ...body } = vllm.bodies[0];
    expect(body).toEqual({
      model: 'policy',
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: 4096,
      n: 1,
      stream: false,
      temperature: 0.7,
      top_p: 1,
      top_k: -1,
      min_p: 0,
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      logprobs: true,
      top_logprobs: 0,
      return_token_ids: true,
    });
    expect(seed).toEqual(expect.any(Number));
    expect(vllm.headers[0]!.authorization).toBe('Bearer policy-key');
  });

  test('is reached by its bearer in either header, and by no other', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const { session } = opened;
    const withKey = await fetch(`${session.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': session.bearer },
      body: JSON.stringify(hello),
    });
    expect(withKey.status).toBe(200);
    const unknown = await post(session, '/v1/messages', hello, {
      headers: { authorization: 'Bearer nobody' },
    });
    expect(unknown.status).toBe(401);
    expect(await unknown.json()).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
    expect(unknown.headers.get('x-should-retry')).toBe('false');
    await session.finish();
    expect((await post(session, '/v1/messages', hello)).status).toBe(401);
  });

  test('has a Unix socket that takes its bearer only, and is gone at the end', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { unixSocket: true });
    const other = await opened.open();
    const directory = opened.session.socket_dir!;
    const path = join(directory, 'gw.sock');
    expect(statSync(directory).mode & 0o777).toBe(0o711);
    expect(statSync(path).mode & 0o777).toBe(0o666);
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(100);
    expect((await overSocket(path, opened.session.bearer, hello)).status).toBe(200);
    expect((await overSocket(path, other.bearer, hello)).status).toBe(401);
    await opened.session.finish();
    await expect(overSocket(path, opened.session.bearer, hello)).rejects.toThrow();
    // A sandbox that is still graded has the directory mounted.
    expect(existsSync(directory)).toBe(true);
    await opened.session[Symbol.asyncDispose]();
    expect(existsSync(directory)).toBe(false);
    await opened.gateway[Symbol.asyncDispose]();
    expect(readdirSync(opened.runtimeDir)).toEqual([]);
  });

  test('answers chat from inside the process with the same budgets and records', async () => {
    await using vllm = await FakeVllm.start(sample({ tools: [{ name: 'look', arguments: '{ "a":1 }' }] }));
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 1 } });
    const caller = { agent_id: 'main', role: 'main' as const, signal: AbortSignal.timeout(10_000) };
    const request = { messages: [{ role: 'user' as const, content: 'hi' }] };
    const answer = await opened.session.chat(request, caller);
    expect(answer.message.tool_calls?.[0]?.function).toEqual({ name: 'look', arguments: '{ "a":1 }' });
    answer.delivered(true);
    await expect(opened.session.chat(request, caller)).rejects.toMatchObject({ code: 'turn_budget' });
    expect(opened.session.stats()).toMatchObject({ calls: 1, main_turns: 1, budget: 'max_turns' });
    expect((await opened.session.finish())[0]!.fate).toBe('delivered');
  });
});

test('a runtime directory too long for a socket is one clear error', async () => {
  await expect(
    createGateway({
      policy: { urls: ['http://127.0.0.1:1'], model: 'm' },
      runtimeDir: `/tmp/${'x'.repeat(90)}`,
      log: silentLogger,
    }),
  ).rejects.toThrow(/runtime directory is too long/);
});
