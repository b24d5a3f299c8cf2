import { describe, expect, test } from 'vitest';
import type { PolicyState } from '../../../src/gateway/policy-state.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { until } from '../../support/wait.ts';
import { FakeVllm, sample } from '../support/fake-vllm.ts';
import { openGateway } from '../support/open-gateway.ts';
import { HeldStream, opening, token } from '../support/streamed.ts';
import { StreamReader, streamBody, type Dialect } from './reading.ts';

const dialects: readonly Dialect[] = ['anthropic', 'openai'];
const policy = { streaming: true };

/** Ends of an upstream stream whose beginning the agent has read. */
const ends: readonly [string, (held: HeldStream) => Promise<void>][] = [
  ['the connection breaks', (held) => held.die()],
  [
    'the policy says an error, and [DONE] behind it',
    (held) => held.end({ error: { message: 'no', code: 500 } }),
  ],
  ['the engine aborts it', (held) => held.end(token({}, 13, { finish_reason: 'abort' }))],
  ['the stream ends without an end', async (held) => void (await held.asked()).end()],
  ['what comes is no JSON', async (held) => void (await held.asked()).end('data: {"choices":\n\n')],
];

describe.each(dialects)('49: an answer that breaks off, of the %s API', (dialect) => {
  test.each(ends)(
    'when %s: the agent is told an error, nothing is sampled anew or trained on',
    async (_name, end) => {
      const held = new HeldStream();
      await using vllm = await FakeVllm.start(held.play, sample({ content: 'another' }));
      await using opened = await openGateway(vllm.url, { policy });
      const reading = StreamReader.open(opened.session, dialect, streamBody('hi'));
      await held.send(opening(), token({ content: 'One ' }, 11), token({ content: 'two ' }, 12));
      const reader = await reading;
      await reader.until('One two ');
      await end(held);
      const told = await reader.all();
      if (dialect === 'anthropic') {
        expect(told.at(-1)).toMatchObject({
          event: 'error',
          data: { type: 'error', error: { type: 'api_error' } },
        });
        expect(told.map(({ event }) => event)).not.toContain('message_stop');
      } else {
        expect(told.slice(-2).map(({ data }) => data)).toEqual([
          { error: expect.objectContaining({ code: 'policy_unavailable' }) },
          '[DONE]',
        ]);
      }
      // Ours, not the agent's: it takes such an error for the end of its run.
      expect(opened.session.stats()).toMatchObject({
        calls: 1,
        failure: { class: 'infra', code: 'policy_answer_cut', retryable: true },
      });
      expect(opened.session.failed.aborted).toBe(true);
      expect(vllm.bodies).toHaveLength(1);
      const records = await opened.session.finish();
      expect(records).toMatchObject([{ fate: 'aborted', answer: null }]);
      expect(Array.from(records[0]!.token_ids!).slice(0, 2)).toEqual([11, 12]);
      expect(records[0]!.reasons).toContain('aborted');
      expect(opened.session.stats().discarded_tokens).toBeGreaterThanOrEqual(2);
      expect(buildSequences(records).sequences).toEqual([]);
    },
  );
});

test('a pause that aborts ends a stream that its agent reads, and has others sampled anew', async () => {
  let cuts = 0;
  const state: PolicyState = {
    source: 'pushed',
    version: () => 1,
    paused: () => false,
    resumed: async () => {},
    unpausedChanges: () => 0,
    cuts: () => cuts,
  };
  const [read, unread] = [new HeldStream(), new HeldStream()];
  await using vllm = await FakeVllm.start(read.play, unread.play, sample({ content: 'anew' }));
  await using opened = await openGateway(vllm.url, { policy, gateway: { policyState: state } });
  const other = await opened.open();
  const reading = StreamReader.open(opened.session, 'anthropic', streamBody('one'));
  await read.send(opening(), token({ content: 'One ' }));
  const reader = await reading;
  await reader.until('One ');
  const waiting = StreamReader.open(other, 'anthropic', streamBody('two'));
  await unread.send(opening());
  cuts++;
  expect((await reader.all()).at(-1)!.event).toBe('error');
  const spared = await waiting;
  await spared.all();
  expect(spared.said).toBe('anew');
  expect((await other.finish()).at(-1)).toMatchObject({ fate: 'delivered' });
});

test('the turn’s deadline ends it too', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy, limits: { turn_seconds: 2 } });
  const reading = StreamReader.open(opened.session, 'anthropic', streamBody('hi'));
  await held.send(opening(), token({ content: 'One ' }));
  expect((await (await reading).all()).at(-1)!.event).toBe('error');
  expect(opened.session.stats().failure).toMatchObject({ code: 'policy_turn_deadline' });
  expect(await opened.session.finish()).toMatchObject([{ fate: 'aborted', token_ids: Int32Array.of(11) }]);
});

test('57: a client that leaves in mid-stream aborts the policy’s work, and its tokens are known and lost', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy });
  const leaving = new AbortController();
  const reading = StreamReader.open(opened.session, 'anthropic', streamBody('hi'), leaving.signal);
  await held.send(opening(), token({ content: 'One ' }));
  await (await reading).until('One ');
  leaving.abort();
  await until(() => vllm.aborted === 1, 'the policy is told');
  await until(() => opened.session.stats().discarded_tokens === 1, 'the call is recorded');
  expect(opened.session.stats().failure).toBeNull();
  expect(await opened.session.finish()).toMatchObject([
    { fate: 'aborted', token_ids: Int32Array.of(11), reasons: ['aborted'], answer: null },
  ]);
});

test('the end of the session ends it', async () => {
  const held = new HeldStream();
  await using vllm = await FakeVllm.start(held.play);
  await using opened = await openGateway(vllm.url, { policy });
  const reading = StreamReader.open(opened.session, 'anthropic', streamBody('hi'));
  await held.send(opening(), token({ content: 'One ' }));
  const reader = await reading;
  await reader.until('One ');
  expect(await opened.session.finish()).toMatchObject([{ fate: 'aborted', token_ids: Int32Array.of(11) }]);
  expect((await reader.all()).at(-1)!.event).toBe('error');
  expect(opened.session.stats().failure).toBeNull();
});
