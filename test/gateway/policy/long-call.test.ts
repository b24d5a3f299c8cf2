import { request } from 'undici';
import { afterEach, expect, test, vi } from 'vitest';
import type { GatewaySession } from '../../../src/gateway/index.ts';
import { FakeVllm, gate } from '../support/fake-vllm.ts';
import { openGateway } from '../support/open-gateway.ts';

// Alone in its file: the pool's own clock must not have begun before the time is ours.
afterEach(() => vi.useRealTimers());

/** The answer's text, for a client that itself waits for ever. */
async function ask(session: GatewaySession, stream: boolean): Promise<string> {
  const { body } = await request(`${session.url}/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${session.bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', max_tokens: 9, stream, messages: [{ role: 'user', content: 'hi' }] }),
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return body.text();
}

test('a call of fifteen minutes is answered, streamed to the agent or not: no time-out but the turn’s own', async () => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  });
  const { play, open } = gate();
  await using vllm = await FakeVllm.start(play, play);
  await using opened = await openGateway(vllm.url, {
    limits: { turn_seconds: 3_600, agent_seconds: 7_200 },
  });
  const other = await opened.open();
  const answers = Promise.all([ask(opened.session, false), ask(other, true)]);
  while (vllm.bodies.length < 2) await new Promise((resolve) => setImmediate(resolve));
  // By steps, with the sockets' own work between them.
  for (let minute = 0; minute < 15; minute++) {
    await vi.advanceTimersByTimeAsync(60_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  open();
  const [whole, streamed] = await answers;
  expect(JSON.parse(whole)).toMatchObject({ content: [{ text: 'hello' }] });
  expect(streamed).toContain('event: ping');
  expect(streamed).toContain('message_stop');
  vi.useRealTimers();
  for (const session of [opened.session, other]) {
    const [record] = await session.finish();
    expect(record).toMatchObject({ fate: 'delivered' });
    expect(record!.ended_at - record!.started_at).toBeGreaterThanOrEqual(900_000);
  }
  expect(vllm.bodies).toHaveLength(2);
});
