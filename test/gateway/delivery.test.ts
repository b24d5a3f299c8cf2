import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../src/contracts/index.ts';
import type { GatewaySession } from '../../src/gateway/session.ts';
import { until } from '../support/wait.ts';
import { FakeVllm, fault, gate, hang, sample } from './support/fake-vllm.ts';
import { events, messages, openGateway } from './support/open-gateway.ts';

const fates = (records: readonly CallRecord[]): string[] => records.map(({ fate }) => fate);

/** A client that sends one request and reads nothing until told to. */
function rawClient(session: GatewaySession, body: string, headers = ''): Socket {
  const { hostname, port } = new URL(session.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.pause();
  socket.write(
    `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${session.bearer}\r\n${headers}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return socket;
}

const body = (text: string, stream = false): string =>
  JSON.stringify({ model: 'm', max_tokens: 9, stream, messages: [{ role: 'user', content: text }] });

const cli = {
  'user-agent': 'claude-cli/2.1.332 (external, sdk-cli)',
  'x-claude-code-session-id': 'a',
  'x-claude-code-request-class': 'main',
};

describe('a client that leaves', () => {
  test('57: before the answer: the policy’s work is aborted after the grace, and recorded so', async () => {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url);
    const client = rawClient(opened.session, body('hi'));
    await vllm.asked(1);
    client.destroy();
    await until(() => vllm.aborted === 1, 'the policy is told');
    expect(await opened.session.finish()).toMatchObject([
      { fate: 'aborted', reasons: ['aborted'], answer: null },
    ]);
  });

  test('58: and asks again in time: attached to the call in flight, sampled once', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    await using opened = await openGateway(vllm.url, { gateway: { graceSeconds: 60 } });
    const client = rawClient(opened.session, body('hi'));
    await vllm.asked(1);
    client.destroy();
    // The server has to see that the first client left: until then a second one is another call.
    const { shared } = opened.session as unknown as { shared: { idle(): boolean } };
    await until(() => shared.idle(), 'the client is seen to be gone');
    const again = rawClient(opened.session, body('hi'));
    let text = '';
    again.on('data', (chunk: Buffer) => (text += chunk.toString()));
    again.resume();
    await until(() => !shared.idle(), 'the retry is there');
    open();
    await until(() => text.includes('hello'), 'the retry has the answer');
    again.destroy();
    expect(vllm.bodies).toHaveLength(1);
    expect(fates(await opened.session.finish())).toEqual(['delivered']);
  });

  test('58: in the middle of a large answer: undelivered, and replayed when it asks again', async () => {
    const large = 'x'.repeat(32 * 2 ** 20);
    await using vllm = await FakeVllm.start(sample({ content: large }), sample({ content: 'another' }));
    await using opened = await openGateway(vllm.url);
    const client = rawClient(opened.session, body('hi', true));
    await until(() => opened.session.stats().completion_tokens > 0, 'the policy answered');
    expect(opened.session.stats().discarded_tokens).toBe(0);
    client.destroy();
    await until(() => opened.session.stats().discarded_tokens === 3, 'the answer is lost');
    const again = rawClient(opened.session, body('hi', true));
    let size = 0;
    again.on('data', (chunk: Buffer) => (size += chunk.length));
    again.resume();
    await until(() => size > large.length, 'the answer is replayed');
    await until(() => opened.session.stats().discarded_tokens === 0, 'the answer is delivered');
    again.destroy();
    expect(vllm.bodies).toHaveLength(1);
    expect(fates(await opened.session.finish())).toEqual(['delivered']);
  });

  test('57: in the middle of a large answer, for good: undelivered', async () => {
    await using vllm = await FakeVllm.start(sample({ content: 'x'.repeat(32 * 2 ** 20) }));
    await using opened = await openGateway(vllm.url);
    const client = rawClient(opened.session, body('hi'));
    await until(() => opened.session.stats().completion_tokens > 0, 'the policy answered');
    client.destroy();
    expect(await opened.session.finish()).toMatchObject([{ fate: 'undelivered', reasons: ['undelivered'] }]);
  });

  test('slowly: delivered only once it has read all', async () => {
    const large = 'x'.repeat(32 * 2 ** 20);
    await using vllm = await FakeVllm.start(sample({ content: large }));
    await using opened = await openGateway(vllm.url);
    const client = rawClient(opened.session, body('hi'));
    await until(() => opened.session.stats().completion_tokens > 0, 'the policy answered');
    let size = 0;
    client.on('data', (chunk: Buffer) => (size += chunk.length));
    client.resume();
    await until(() => size > large.length, 'the slow client has all');
    expect(fates(await opened.session.finish())).toEqual(['delivered']);
    client.destroy();
  });
});

describe('the same request twice', () => {
  test('at once, from clients that are both there: two samples', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await Promise.all([messages(opened.session, 'hi'), messages(opened.session, 'hi')]);
    expect(fates(await opened.session.finish())).toEqual(['delivered', 'delivered']);
  });

  test('58: after it was delivered: sampled anew; of the CLI, only the new answer counts', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, 'hi', {}, { headers: cli });
    await messages(opened.session, 'hi', {}, { headers: cli });
    expect(opened.session.stats()).toMatchObject({ main_turns: 1, discarded_tokens: 3 });
    expect(fates(await opened.session.finish())).toEqual(['discarded', 'delivered']);
    const other = await opened.open();
    await messages(other, 'hi');
    await messages(other, 'hi');
    expect(fates(await other.finish())).toEqual(['delivered', 'delivered']);
  });

  test('from two agents with equal prompts: two samples of two agents', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, 'go', {}, { headers: cli });
    for (const id of ['a1', 'b2']) {
      const headers = { ...cli, 'x-claude-code-request-class': 'subagent', 'x-claude-code-agent-id': id };
      await messages(opened.session, 'hi', {}, { headers });
    }
    expect(await opened.session.finish()).toMatchObject([
      { fate: 'delivered', agent_id: 'main', role: 'main' },
      { fate: 'delivered', agent_id: 'a1', role: 'subagent' },
      { fate: 'delivered', agent_id: 'b2', role: 'subagent' },
    ]);
  });
});

describe('a stream that waits', () => {
  test('49: has no headers until the policy answers, so an error keeps its status', async () => {
    await using vllm = await FakeVllm.start(fault(400, 'no'));
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'hi', { stream: true });
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toBe('application/json');
  });

  test('48, 56: is kept alive by ping events once its headers are out, and replays the unary answer', async () => {
    const { play, open } = gate({ content: 'late' });
    await using vllm = await FakeVllm.start(play);
    await using opened = await openGateway(vllm.url, {
      gateway: { withholdSeconds: 0.05, pingSeconds: 0.02 },
    });
    const response = await messages(opened.session, 'hi', { stream: true });
    expect(response.status).toBe(200);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (text.split('event: ping').length < 4) text += (await reader.read()).value ?? '';
    open();
    for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
    const names = events(text).map(({ event }) => event);
    expect(names.lastIndexOf('ping')).toBeLessThan(names.indexOf('message_start'));
    expect(names.at(-1)).toBe('message_stop');
    expect(fates(await opened.session.finish())).toEqual(['delivered']);
  });

  test('49: ends in an error event when the policy fails after that', async () => {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url, {
      gateway: { withholdSeconds: 0.02 },
      limits: { turn_seconds: 0.3 },
    });
    const response = await messages(opened.session, 'hi', { stream: true });
    const names = events(await response.text()).map(({ event }) => event);
    expect(names.at(-1)).toBe('error');
    expect(names).not.toContain('message_stop');
  });
});

describe('the end of a session', () => {
  test('aborts what is in flight and records it in order', async () => {
    await using vllm = await FakeVllm.start(sample(), hang);
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, 'one');
    const open = messages(opened.session, 'two');
    await vllm.asked(2);
    const records = await opened.session.finish();
    expect(records.map(({ index, fate }) => [index, fate])).toEqual([
      [0, 'delivered'],
      [1, 'aborted'],
    ]);
    expect((await open).status).toBe(403);
    expect(await opened.session.finish()).toBe(records);
    await until(() => vllm.aborted === 1, 'the policy is told');
  });
});

describe('clients other than the agent’s own (design 6)', () => {
  const tools = [{ name: 'Bash', input_schema: { type: 'object' } }];

  test('are served within the budget, and recorded apart', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 2 } });
    const { session } = opened;
    await messages(session, 'go', { system: 's', tools }, { headers: cli });
    const curl = await messages(session, 'say yes', {}, { headers: { 'user-agent': 'curl/8' } });
    expect(curl.status).toBe(200);
    // With the CLI's headers, but neither its system prompt nor its tools.
    await messages(session, 'say yes', { system: 'other' }, { headers: cli });
    // The CLI itself, whose system prompt may change in mid-run.
    await messages(session, 'go on', { system: 's2', tools }, { headers: cli });
    expect(session.stats()).toMatchObject({ self_calls: 2, main_turns: 2, calls: 4 });
    const records = await session.finish();
    expect(records.map(({ role, notes }) => [role, ...notes])).toEqual([
      ['main'],
      ['auxiliary', 'foreign_client'],
      ['auxiliary', 'foreign_client'],
      ['main'],
    ]);
  });

  test('the CLI’s own side calls are auxiliary and not foreign', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, 'go', { system: 's', tools }, { headers: cli });
    const headers = { ...cli, 'x-claude-code-request-class': 'auxiliary' };
    await messages(opened.session, 'search', { system: 'You run a web search' }, { headers });
    expect((await opened.session.finish())[1]).toMatchObject({
      role: 'auxiliary',
      agent_id: 'main',
      notes: [],
    });
  });
});
