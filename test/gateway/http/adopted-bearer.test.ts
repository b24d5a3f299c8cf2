import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { FakeVllm } from '../support/fake-vllm.ts';
import { openGateway, post } from '../support/open-gateway.ts';

const hello = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };
const minted = (): string => `rp-${randomBytes(32).toString('base64url')}`;

describe('a bearer that was minted before its session', () => {
  test('is nobody’s until one session adopts it, and dies with that session', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const { session } = opened;
    const bearer = minted();
    const asked = async (): Promise<number> =>
      (await post(session, '/v1/messages', hello, { headers: { authorization: `Bearer ${bearer}` } })).status;
    expect(await asked()).toBe(401);
    session.adopt(bearer);
    expect(await asked()).toBe(200);
    expect((await post(session, '/v1/messages', hello)).status).toBe(200);
    expect(session.stats().calls).toBe(2);
    await session.finish();
    expect(await asked()).toBe(401);
    expect((await post(session, '/v1/messages', hello)).status).toBe(401);
  });

  test('is refused when it is taken, short, or comes too late', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const other = await opened.open();
    const bearer = minted();
    opened.session.adopt(bearer);
    expect(() => other.adopt(bearer)).toThrow('in use');
    expect(() => other.adopt(opened.session.bearer)).toThrow('in use');
    expect(() => other.adopt('guess-me')).toThrow('short');
    await other.finish();
    expect(() => other.adopt(minted())).toThrow('ended');
  });
});
