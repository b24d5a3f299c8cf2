import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { connectFailFast, queueNames } from '../../../src/queue/index.ts';
import {
  createControl,
  startControlListener,
  type Control,
  type ControlListener,
} from '../../../src/queue/control/index.ts';
import { policyReplicaName } from '../../../src/queue/control/policy-replica.ts';
import { FakeVllm, gate, sample, hang } from '../../gateway/support/fake-vllm.ts';
import { messages, openGateway, type Opened } from '../../gateway/support/open-gateway.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { until } from '../../support/wait.ts';

let redis: Redis & AsyncDisposable;
let control: Control;
let prefix: string;

beforeEach(async () => {
  prefix = freshPrefix();
  redis = await connectFailFast({ redisUrl: testRedisUrl(), log: silentLogger });
  const none = (): Promise<boolean> => Promise.resolve(false);
  control = createControl({
    redis,
    names: queueNames(prefix),
    cancelRun: none,
    cancelGroup: none,
    cancelEpisode: none,
    pauseRun: none,
    resumeRun: none,
  });
});
afterEach(() => redis[Symbol.asyncDispose]());

interface Worker extends AsyncDisposable {
  readonly listener: ControlListener;
  readonly opened: Opened;
}

/** What a worker process has of it: an ear on the control channel, and a gateway that heeds it. */
async function startWorker(urls: string | readonly string[], limits = {}): Promise<Worker> {
  const listener = await startControlListener({ redisUrl: testRedisUrl(), prefix, pollMs: 3_600_000 });
  const opened = await openGateway(urls, { gateway: { policyState: listener.policy }, limits });
  return {
    listener,
    opened,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]();
      await listener.close();
    },
  };
}

const heard = (listener: ControlListener, revision: number): Promise<boolean> =>
  until(() => listener.policy.record.revision >= revision, `revision ${revision} was heard`);

const notesOf = async (opened: Opened): Promise<{ grade: string; notes: readonly string[] }> => {
  const [sequence] = buildSequences(await opened.session.finish()).sequences;
  return sequence!.certificate;
};

describe('a pause', () => {
  it('before a call holds it, and the call is made with the version set meanwhile', async () => {
    await using vllm = await FakeVllm.start();
    await using worker = await startWorker(vllm.url);
    await control.setPolicy({ version: 1 });
    await heard(worker.listener, (await control.setPolicy({ paused: true })).revision);
    const answer = messages(worker.opened.session, 'hi');
    await until(() => worker.opened.session.stats().hold_ms > 50, 'the call is held');
    expect(vllm.bodies).toHaveLength(0);
    await control.setPolicy({ version: 2 });
    await control.setPolicy({ paused: false });
    expect((await answer).status).toBe(200);
    expect(await worker.opened.session.finish()).toMatchObject([
      { version_start: 2, version_end: 2, notes: [], fate: 'delivered' },
    ]);
  });

  it('that drains lets a call in flight end; what spans two versions is trainable, with a note', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    await using worker = await startWorker(vllm.url);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    const answer = messages(worker.opened.session, 'hi');
    await vllm.asked(1);
    await control.setPolicy({ paused: true, in_flight: 'drain' });
    await control.setPolicy({ version: 2 });
    await heard(worker.listener, (await control.setPolicy({ paused: false })).revision);
    open();
    expect((await answer).status).toBe(200);
    expect([vllm.bodies.length, vllm.aborted]).toEqual([1, 0]);
    const { grade, notes } = await notesOf(worker.opened);
    expect([grade, notes]).toEqual(['exact', ['mixed_version']]);
  });

  it('that drains lets a call end during the pause, with the version it began with', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    await using worker = await startWorker(vllm.url);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    const answer = messages(worker.opened.session, 'hi');
    await vllm.asked(1);
    await heard(worker.listener, (await control.setPolicy({ paused: true })).revision);
    open();
    expect((await answer).status).toBe(200);
    expect(await notesOf(worker.opened)).toMatchObject({ grade: 'exact', notes: [] });
  });

  it('with abort ends a call in flight and samples it anew with the new version', async () => {
    await using vllm = await FakeVllm.start(hang, sample({ content: 'anew' }));
    await using worker = await startWorker(vllm.url);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    const answer = messages(worker.opened.session, 'hi');
    await vllm.asked(1);
    await control.setPolicy({ paused: true, in_flight: 'abort' });
    await until(() => vllm.aborted === 1, 'the call was ended upstream');
    expect(vllm.bodies).toHaveLength(1);
    await control.setPolicy({ version: 2 });
    await control.setPolicy({ paused: false });
    expect(await (await answer).json()).toMatchObject({ content: [{ text: 'anew' }] });
    expect(await worker.opened.session.finish()).toMatchObject([
      { version_start: 2, version_end: 2, notes: [], fate: 'delivered' },
    ]);
  });

  it('with abort that was over before anybody looked ends the calls in flight all the same', async () => {
    await using vllm = await FakeVllm.start(hang, sample());
    await using worker = await startWorker(vllm.url);
    const answer = messages(worker.opened.session, 'hi');
    await vllm.asked(1);
    await control.setPolicy({ paused: true, in_flight: 'abort' });
    await control.setPolicy({ version: 5 });
    await control.setPolicy({ paused: false });
    expect((await answer).status).toBe(200);
    expect(vllm.aborted).toBe(1);
    expect(await worker.opened.session.finish()).toMatchObject([{ version_start: 5, version_end: 5 }]);
  });

  it('after a call says nothing of it', async () => {
    await using vllm = await FakeVllm.start();
    await using worker = await startWorker(vllm.url);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    await messages(worker.opened.session, 'hi');
    await control.setPolicy({ paused: true, in_flight: 'abort' });
    await heard(worker.listener, (await control.setPolicy({ version: 2 })).revision);
    expect(await worker.opened.session.finish()).toMatchObject([
      { version_start: 1, version_end: 1, fate: 'delivered', notes: [] },
    ]);
  });

  it('is heeded by a worker that starts during it', async () => {
    await using vllm = await FakeVllm.start();
    await control.setPolicy({ version: 3 });
    await control.setPolicy({ paused: true, in_flight: 'abort' });
    {
      await using before = await startWorker(vllm.url);
      expect(before.listener.policy.paused()).toBe(true);
    }
    await using worker = await startWorker(vllm.url);
    const answer = messages(worker.opened.session, 'hi');
    await until(() => worker.opened.session.stats().hold_ms > 50, 'the call is held');
    expect(vllm.bodies).toHaveLength(0);
    await control.setPolicy({ paused: false });
    expect((await answer).status).toBe(200);
    // The request to end calls is older than this one.
    expect(vllm.aborted).toBe(0);
  });

  it('longer than hold_seconds is the episode’s infra failure', async () => {
    await using vllm = await FakeVllm.start();
    await control.setPolicy({ paused: true });
    await using worker = await startWorker(vllm.url, { hold_seconds: 0.3 });
    expect((await messages(worker.opened.session, 'hi')).status).toBe(503);
    expect(worker.opened.session.stats().failure).toMatchObject({
      class: 'infra',
      code: 'policy_hold_deadline',
      retryable: true,
    });
    expect(vllm.bodies).toHaveLength(0);
  });
});

describe('versions', () => {
  it('set by two trainers at once are all counted, and every worker ends with the same', async () => {
    await using vllm = await FakeVllm.start();
    await using first = await startWorker(vllm.url);
    await using second = await startWorker(vllm.url);
    const states = await Promise.all(
      Array.from({ length: 20 }, (_, version) => control.setPolicy({ version })),
    );
    expect(new Set(states.map(({ revision }) => revision)).size).toBe(20);
    const last = await control.policy();
    expect(last).toMatchObject({ revision: 20, unpaused_changes: 20 });
    for (const { listener } of [first, second]) {
      await heard(listener, 20);
      expect(listener.policy.record).toEqual(last);
    }
  });

  it('set without a pause make calls in flight uncertain, and they stay trainable', async () => {
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play);
    await using worker = await startWorker(vllm.url);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    const answer = messages(worker.opened.session, 'hi');
    await vllm.asked(1);
    await heard(worker.listener, (await control.setPolicy({ version: 2 })).revision);
    open();
    await answer;
    const { grade, notes } = await notesOf(worker.opened);
    expect([grade, [...notes].sort()]).toEqual(['exact', ['mixed_version', 'version_uncertain']]);
  });

  it('of one replica concern its calls only', async () => {
    const gates = [gate(), gate()];
    await using here = await FakeVllm.start(gates[0]!.play);
    await using there = await FakeVllm.start(gates[1]!.play);
    await using worker = await startWorker([here.url, there.url]);
    await heard(worker.listener, (await control.setPolicy({ version: 1 })).revision);
    const other = await worker.opened.open();
    const answers = [messages(worker.opened.session, 'hi')];
    await here.asked(1);
    answers.push(messages(other, 'hi'));
    await there.asked(1);
    const state = await control.setPolicy({ version: 2, replica: `${there.url}/v1/` });
    await heard(worker.listener, state.revision);
    for (const { open } of gates) open();
    await Promise.all(answers);
    expect(await worker.opened.session.finish()).toMatchObject([
      { replica: here.url, version_start: 1, version_end: 1, notes: [] },
    ]);
    expect(await other.finish()).toMatchObject([
      { replica: there.url, version_start: 1, version_end: 2, notes: ['version_uncertain'] },
    ]);
  });
});

describe('the policy’s record', () => {
  it('of an earlier release is understood, and gets what it lacks', async () => {
    const old = {
      schema: 1,
      revision: 7,
      version: 3,
      replicas: {},
      paused: true,
      unpaused_changes: 2,
      updated_at: 1,
    };
    await redis.set(queueNames(prefix).policy, JSON.stringify(old));
    expect(await control.policy()).toMatchObject({ version: 3, cuts: 0, unpaused_by_replica: {} });
    expect(await control.setPolicy({ paused: false })).toMatchObject({ revision: 8, cuts: 0, paused: false });
    expect(await control.setPolicy({ paused: true, in_flight: 'abort' })).toMatchObject({ cuts: 1 });
  });

  it('takes in_flight with a pause only', async () => {
    await expect(control.setPolicy({ in_flight: 'abort' })).rejects.toThrow('in_flight');
    await expect(control.setPolicy({ paused: false, in_flight: 'drain' })).rejects.toThrow('in_flight');
  });
});

it.each([
  ['http://gpu-1:8000/v1', 'http://gpu-1:8000'],
  ['http://gpu-1:8000/', 'http://gpu-1:8000'],
  ['http://user:secret@gpu-1:80/a/v1/', 'http://gpu-1/a'],
  ['gpu-1', 'gpu-1'],
])('a replica written %s is %s', (written, name) => {
  expect(policyReplicaName(written)).toBe(name);
});
