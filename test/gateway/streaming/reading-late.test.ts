import { expect, test } from 'vitest';
import type { AssistantMessage } from '../../../src/contracts/index.ts';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { until } from '../../support/wait.ts';
import { foldEvents } from '../dialects/strict-stream.ts';
import { FakeVllm, type Play } from '../support/fake-vllm.ts';
import { events, openGateway } from '../support/open-gateway.ts';
import { HeldStream, opening, streams, token, usage } from '../support/streamed.ts';
import { pausedClient, StreamReader, streamBody } from './reading.ts';

const policy = { streaming: true };
const idle = (session: GatewaySession): boolean =>
  (session as unknown as { shared: { idle(): boolean } }).shared.idle();

test('58: a retry in mid-stream reads first what came before it, then goes on: sampled once, the same ids', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy, gateway: { graceSeconds: 60 } });
  const leaving = new AbortController();
  const first = StreamReader.open(opened.session, 'anthropic', streamBody('hi'), leaving.signal);
  await held.send(
    opening(),
    token({ reasoning: 'Hm. ' }),
    token({ content: 'One ' }),
    token({ content: 'two ' }),
  );
  await (await first).until('two ');
  leaving.abort();
  await until(() => idle(opened.session), 'the client is seen to be gone');
  const call = { index: 0, id: 'c', function: { name: 'Bash', arguments: '{"a"' } };
  await held.send(token({ content: 'three' }), token({ tool_calls: [call] }));
  const again = await StreamReader.open(opened.session, 'anthropic', streamBody('hi'));
  await again.until('Hm. One two three{"a"');
  const rest = { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] };
  await held.end(token(rest), token({}, 11, { finish_reason: 'tool_calls' }), usage(7));
  const { content } = foldEvents(await again.all());
  const [record] = await opened.session.finish();
  expect(record).toMatchObject({ fate: 'delivered', reasons: [] });
  expect(content).toEqual([
    { type: 'thinking', thinking: 'Hm. ', signature: expect.stringMatching(/.+/) },
    { type: 'text', text: 'One two three' },
    {
      type: 'tool_use',
      id: (record!.answer as AssistantMessage).tool_calls![0]!.id,
      name: 'Bash',
      input: { a: 1 },
    },
  ]);
  expect(vllm.bodies).toHaveLength(1);
});

test('58: an answer that its client lost is told whole to the retry', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy, gateway: { graceSeconds: 60 } });
  const leaving = new AbortController();
  const first = StreamReader.open(opened.session, 'openai', streamBody('hi'), leaving.signal);
  await held.send(opening(), token({ content: 'One ' }));
  await (await first).until('One ');
  leaving.abort();
  await until(() => idle(opened.session), 'the client is seen to be gone');
  await held.end(token({ content: 'two' }, 12, { finish_reason: 'stop' }), usage(2));
  await until(() => opened.session.stats().discarded_tokens === 2, 'the answer is lost');
  const again = await StreamReader.open(opened.session, 'openai', streamBody('hi'));
  await again.all();
  expect(again.said).toBe('One two');
  expect(vllm.bodies).toHaveLength(1);
  expect((await opened.session.finish()).map(({ fate }) => fate)).toEqual(['delivered']);
});

const piece = 'x'.repeat(1_000);
const pieces = 20_000;

/** Streams 20 MB, as fast as it is read. */
const flood: Play = async (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
  response.write(event(opening()));
  for (let at = 0; at < pieces; at++) {
    if (!response.write(event(token({ content: piece }, at)))) {
      await new Promise((resolve) => response.once('drain', resolve));
    }
  }
  response.end(event(token({}, 5, { finish_reason: 'stop' })) + 'data: [DONE]\n\n');
};

test('a client that reads nothing costs one copy of its answer, holds up nobody, and misses nothing', async () => {
  await using vllm = await FakeVllm.start(flood, streams({ content: 'quick' }));
  await using opened = await openGateway(vllm.url, { policy, limits: { context_tokens: 1_000_000 } });
  const client = pausedClient(opened.session, 'anthropic', streamBody('hi'));
  await vllm.asked(1);
  const quick = await StreamReader.open(await opened.open(), 'anthropic', streamBody('hi'));
  await quick.all();
  expect(quick.said).toBe('quick');
  // The policy's answer is taken to its end all the same: its engine is not held up.
  await until(() => opened.session.stats().completion_tokens > pieces, 'the policy has said all');
  let body = '';
  client.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
  client.resume();
  await until(() => body.endsWith('0\r\n\r\n'), 'the client has read all');
  // Without the frames of chunked encoding.
  const text = body
    .slice(body.indexOf('\r\n\r\n') + 4)
    .replace(/(?:^|\r\n)[\da-f]+\r\n/g, '')
    .replace(/\r\n\r\n$/, '');
  const told = events(text);
  expect(foldEvents(told).content).toEqual([{ type: 'text', text: piece.repeat(pieces) }]);
  // What it missed came joined: nothing was kept for it token by token.
  expect(told.length).toBeLessThan(pieces / 4);
  client.destroy();
  expect((await opened.session.finish()).map(({ fate }) => fate)).toEqual(['delivered']);
});

test('48: a stream whose policy pauses for breath is kept alive by pings', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy, gateway: { pingSeconds: 0.02 } });
  const reading = StreamReader.open(opened.session, 'anthropic', streamBody('hi'));
  await held.send(opening(), token({ content: 'One ' }));
  const reader = await reading;
  await until(() => reader.text.split('event: ping').length > 3, 'pings come');
  await held.end(token({ content: 'two' }, 12, { finish_reason: 'stop' }), usage(2));
  expect(foldEvents(await reader.all()).content).toEqual([{ type: 'text', text: 'One two' }]);
});
