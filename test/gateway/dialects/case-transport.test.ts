import { request } from 'node:http';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { bodyLimit } from '../../../src/gateway/http/body.ts';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { wellFormedJson } from '../../../src/gateway/well-formed-json.ts';
import { completion, FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { events, messages, openGateway, post } from '../support/open-gateway.ts';
import { foldEvents } from './strict-stream.ts';

const hello = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };

/** Status of a request whose body is these bytes. */
async function send(
  session: GatewaySession,
  body: Uint8Array | string,
  headers: Record<string, string> = {},
): Promise<number> {
  const response = await fetch(`${session.url}/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${session.bearer}`, ...headers },
    body: body as never,
  });
  await response.arrayBuffer();
  return response.status;
}

/** Sends a body in these pieces, each a chunk of its own; resolves with the status. */
async function sendPieces(session: GatewaySession, pieces: Iterable<Uint8Array>): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${session.bearer}` };
    const sent = request(
      `${session.url}/v1/messages`,
      { method: 'POST', headers, agent: false },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    sent.on('error', reject);
    for (const piece of pieces) sent.write(piece);
    sent.end();
  });
}

const bytes = (data: Uint8Array): Uint8Array[] => Array.from(data, (byte) => Uint8Array.of(byte));

describe('bodies of requests', () => {
  test('36: up to 64 MiB are taken, more is a 413 that the client can read, announced or not', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { context_tokens: 100_000_000 } });
    const frame = JSON.stringify({ ...hello, messages: [{ role: 'user', content: '' }] });
    const [before, behind] = frame.split('"content":"') as [string, string];
    const fill = 'x'.repeat(bodyLimit - frame.length);
    expect(await send(opened.session, `${before}"content":"${fill}${behind}`)).toBe(200);
    expect((vllm.bodies[0].messages[0].content as string).length).toBe(fill.length);
    expect(await send(opened.session, `${before}"content":"${fill}x${behind}`)).toBe(413);
    const block = Buffer.alloc(2 ** 20, 32);
    expect(
      await sendPieces(
        opened.session,
        Array.from({ length: 65 }, () => block),
      ),
    ).toBe(413);
    expect(await send(opened.session, JSON.stringify(hello))).toBe(200);
  });

  test('36: gzip, deflate and br are taken; broken, cut and unknown ones are refused', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const plain = JSON.stringify(hello);
    const encoded = (encoding: string, body: Uint8Array | string): Promise<number> =>
      send(opened.session, body, { 'content-encoding': encoding });
    expect(await encoded('gzip', gzipSync(plain))).toBe(200);
    expect(await encoded(' GZIP', gzipSync(plain))).toBe(200);
    expect(await encoded('deflate', deflateSync(plain))).toBe(200);
    expect(await encoded('br', brotliCompressSync(plain))).toBe(200);
    expect(await encoded('identity', plain)).toBe(200);
    expect(await encoded('gzip', 'no gzip')).toBe(400);
    expect(await encoded('gzip', gzipSync(plain).subarray(0, -12))).toBe(400);
    expect(await encoded('compress', plain)).toBe(415);
    expect(await encoded('gzip, br', plain)).toBe(415);
    expect(await send(opened.session, '{"model":')).toBe(400);
  });

  test('36: a small body that grows is refused at the same bound', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const grows = gzipSync(Buffer.alloc(65 * 2 ** 20, 32));
    expect(await send(opened.session, grows, { 'content-encoding': 'gzip' })).toBe(413);
    expect(vllm.bodies).toEqual([]);
  });

  test('37: lone surrogates become U+FFFD, in keys as well; pairs and escaped backslashes stay', async () => {
    const parsed = (json: string): unknown => JSON.parse(wellFormedJson(json));
    expect(parsed('{"a":"\\ud83d x \\ud83d\\ude00","b":"\\\\ud83d"}')).toEqual({
      a: '\uFFFD x 😀',
      b: '\\ud83d',
    });
    expect(parsed('["\\uD83D\\uD83D\\uDE00","\\ude00\\ud83d","\\\\\\ud83d"]')).toEqual([
      '\uFFFD😀',
      '\uFFFD\uFFFD',
      '\\\uFFFD',
    ]);
    expect(parsed('{"\\ud83d":{"\\udfff":1}}')).toEqual({ '\uFFFD': { '\uFFFD': 1 } });
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const body = JSON.stringify({ ...hello, messages: [{ role: 'user', content: 'a\ud83d' }] });
    expect(await send(opened.session, body)).toBe(200);
    expect(vllm.bodies[0].messages[0].content).toBe('a\uFFFD');
  });

  test('38: text is whole wherever its bytes were cut, on the way in and on the way out', async () => {
    const text = 'é€😀👩‍👩‍👧 done';
    await using vllm = await FakeVllm.start((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      for (const byte of bytes(Buffer.from(JSON.stringify(completion({ content: text })))))
        response.write(byte);
      response.end();
    });
    await using opened = await openGateway(vllm.url);
    const body = JSON.stringify({ ...hello, messages: [{ role: 'user', content: text }] });
    expect(await sendPieces(opened.session, bytes(Buffer.from(body)))).toBe(200);
    expect(vllm.bodies[0].messages[0].content).toBe(text);
    const streamed = await (await messages(opened.session, 'hi', { stream: true })).text();
    expect(foldEvents(events(streamed)).content).toEqual([{ type: 'text', text }]);
  });

  test('39: CRLF in a body is only white space, and no text breaks the frames of a stream', async () => {
    const content = 'a\r\n\r\ndata: {"type":"message_stop"}\n\nevent: error\u0085\u2028\u2029\u0000\r';
    await using vllm = await FakeVllm.start(sample({ content, reasoning: content }));
    await using opened = await openGateway(vllm.url);
    expect(await send(opened.session, JSON.stringify(hello, null, 2).replaceAll('\n', '\r\n'))).toBe(200);
    const response = await messages(opened.session, 'hi', { stream: true });
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const body = await response.text();
    const lines = body.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/);
    for (const line of lines) expect(line).toMatch(/^(event: [a-z_]+|data: \{.*\}|)$/);
    expect(foldEvents(events(body)).content).toMatchObject([{ thinking: content }, { text: content }]);
  });
});

describe('the other routes', () => {
  test('52: tokens are counted by the policy, for the very prompt that a call would have', async () => {
    await using vllm = await FakeVllm.start();
    let counted: Loose = null;
    vllm.tokenize = (body) => {
      counted = body;
      return { count: 41, tokens: [] };
    };
    await using opened = await openGateway(vllm.url);
    const body = {
      ...hello,
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cch=1' },
        { type: 'text', text: 's' },
      ],
      tools: [{ name: 'Bash', input_schema: { type: 'object' }, cache_control: {} }],
    };
    const response = await post(opened.session, '/v1/messages/count_tokens?beta=true', body);
    expect(await response.json()).toEqual({ input_tokens: 41 });
    expect(opened.session.stats().calls).toBe(0);
    await post(opened.session, '/v1/messages', body);
    expect([counted.messages, counted.tools]).toEqual([vllm.bodies[0].messages, vllm.bodies[0].tools]);
  });

  test('52: where it cannot count, the answer is an estimate and never 0; a bad request is a 400', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const count = (body: unknown): Promise<Response> =>
      post(opened.session, '/v1/messages/count_tokens', body);
    const short = (await (await count(hello)).json()) as Loose;
    const long = { ...hello, messages: [{ role: 'user', content: 'word '.repeat(1000) }] };
    expect(short.input_tokens).toBeGreaterThan(0);
    expect(((await (await count(long)).json()) as Loose).input_tokens).toBeGreaterThan(1000);
    expect((await count({ messages: [] })).status).toBe(400);
    expect(vllm.bodies).toEqual([]);
  });

  test('53: a probe of the root needs no credential, models are listed, anything else is 404 at once', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const { session } = opened;
    expect((await fetch(session.url, { method: 'HEAD' })).status).toBe(200);
    expect((await fetch(session.url)).status).toBe(200);
    const headers = { authorization: `Bearer ${session.bearer}` };
    const models = await fetch(`${session.url}/v1/models?limit=1000`, { headers });
    expect(await models.json()).toMatchObject({ object: 'list', data: [{ id: 'policy', object: 'model' }] });
    expect((await fetch(`${session.url}/v1/models`)).status).toBe(401);
    const missing = await post(session, '/api/event_logging/batch', {});
    expect(missing.status).toBe(404);
    expect(await missing.json()).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    const openai = await post(session, '/v1/chat/else', {});
    expect(await openai.json()).toMatchObject({ error: { message: expect.any(String), param: null } });
    expect(vllm.bodies).toEqual([]);
  });

  test('60: ids and logprobs are the engine’s own for a stream too: nothing stands between that drops them', async () => {
    await using vllm = await FakeVllm.start(sample({ ids: [7, 8], logprobs: [-0.5, -1], prompt: [1, 2] }));
    await using opened = await openGateway(vllm.url);
    const body = await (await messages(opened.session, 'hi', { stream: true })).text();
    expect(body).not.toMatch(/token_ids|logprob/);
    expect(await opened.session.finish()).toMatchObject([
      {
        fate: 'delivered',
        prompt_token_ids: Int32Array.of(1, 2),
        token_ids: Int32Array.of(7, 8),
        logprobs: Float32Array.of(-0.5, -1),
      },
    ]);
  });
});
