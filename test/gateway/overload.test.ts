import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { until } from '../support/wait.ts';
import { completion, FakeVllm, gate, json, type Play } from './support/fake-vllm.ts';
import { messages, openGateway, post } from './support/open-gateway.ts';

/** Samples as many tokens as it may. */
const toTheLimit: Play = async (_request, response, body) => {
  await turn();
  const ids = Array.from({ length: body.max_tokens as number }, (_, at) => at);
  json(response, 200, completion({ ids }));
};

describe('an agent that asks for too much at once', () => {
  test('gets no more tokens out of parallel calls than its budget has', async () => {
    await using vllm = await FakeVllm.start(toTheLimit);
    await using opened = await openGateway(vllm.url, {
      limits: { max_sampled_tokens: 100, max_output_tokens: 30 },
    });
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, at) => messages(opened.session, `call ${at}`)),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(4);
    expect(statuses.filter((status) => status === 402)).toHaveLength(56);
    expect(opened.session.stats()).toMatchObject({ completion_tokens: 100, budget: 'max_tokens' });
    expect(vllm.bodies.map((body) => body.max_tokens)).toEqual([30, 30, 30, 10]);
  });

  test('waits its turn with a call beyond those that may be on their way, which no clock counts', async () => {
    const gated = gate();
    await using vllm = await FakeVllm.start(gated.play);
    await using opened = await openGateway(vllm.url, {
      limits: { max_sampled_tokens: 1_000_000, max_output_tokens: 10, max_turns: 1_000 },
    });
    const answers = Array.from({ length: 50 }, (_, at) => messages(opened.session, `call ${at}`));
    await vllm.asked(32);
    expect(opened.session.stats().calls).toBe(32);
    gated.open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(50).fill(200));
  });

  test('has its waiting calls refused when the session ends', async () => {
    const gated = gate();
    await using vllm = await FakeVllm.start(gated.play);
    await using opened = await openGateway(vllm.url, { limits: { max_sampled_tokens: 10 } });
    const ask = (content: string): Promise<unknown> =>
      opened.session
        .chat(
          { messages: [{ role: 'user', content }] },
          { agent_id: 'main', role: 'main', signal: new AbortController().signal },
        )
        .catch((error: unknown) => error);
    const calls = [ask('one'), ask('two')];
    await vllm.asked(1);
    expect(await opened.session.finish()).toHaveLength(1);
    gated.open();
    expect(await Promise.all(calls)).toMatchObject([{ code: 'closed' }, { code: 'closed' }]);
  });

  test('has 256 pipelined requests taken on one connection, and 128 connections', async () => {
    const gated = gate();
    await using vllm = await FakeVllm.start(gated.play);
    await using opened = await openGateway(vllm.url, {
      unixSocket: true,
      limits: { max_sampled_tokens: 1_000_000, max_turns: 1_000 },
    });
    const path = join(opened.session.socket_dir!, 'gw.sock');
    const sockets: Socket[] = [];
    const dial = (): Socket => {
      const socket = connect(path).on('error', () => {});
      sockets.push(socket);
      return socket;
    };
    try {
      const one = dial();
      let said = '';
      one.on('data', (chunk) => (said += String(chunk)));
      for (let at = 0; at < 300; at++) {
        const body = JSON.stringify({ max_tokens: 5, messages: [{ role: 'user', content: `call ${at}` }] });
        one.write(
          `POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${opened.session.bearer}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
      }
      await vllm.asked(32);
      gated.open();
      // In the order in which they were sent: 256 answers, then the refusals.
      await until(() => said.split('HTTP/1.1 ').length > 300, 'every request is answered');
      const statuses = said
        .split('HTTP/1.1 ')
        .slice(1)
        .map((answer) => answer.slice(0, 3));
      expect(statuses.filter((status) => status === '200').length).toBeGreaterThanOrEqual(256);
      expect(statuses).toContain('429');

      let refused = 0;
      for (let at = 0; at < 200; at++) dial().on('close', () => refused++);
      await until(() => refused >= 73, 'connections over the limit are closed');
      expect((await post(opened.session, '/v1/messages', '{}')).status).toBe(400);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  test('has its counts of tokens answered by an estimate while four are on their way', async () => {
    await using vllm = await FakeVllm.start();
    let asked = 0;
    vllm.tokenize = () => ({ count: ++asked && 4_242, tokens: [] });
    await using opened = await openGateway(vllm.url);
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    const counts = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const response = await post(opened.session, '/v1/messages/count_tokens', body);
        return ((await response.json()) as { input_tokens: number }).input_tokens;
      }),
    );
    expect(counts).toContain(4_242);
    expect(counts.filter((count) => count === 4_242)).toHaveLength(asked);
  });

  test('is told that a body is nested too deeply', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;
    const input = `[{"type":"tool_use","id":"t","name":"n","input":${deep}}]`;
    const response = await post(
      opened.session,
      '/v1/messages',
      `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":${input}}]}`,
    );
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: 'messages.1.content.0.input: is nested too deeply' },
    });
  });

  test('is told that a content-encoding named like an object’s own part is not taken', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const headers = { 'content-encoding': 'constructor' };
    expect((await post(opened.session, '/v1/messages', '{}', { headers })).status).toBe(415);
  });
});
