import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../../src/contracts/index.ts';
import type { GatewaySession } from '../../../src/gateway/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { FakeVllm, gate, hang, json, sample } from '../support/fake-vllm.ts';
import { messages, openGateway, type Opened } from '../support/open-gateway.ts';
import { until } from '../../support/wait.ts';
import { PolicyProcess } from './policy-process.ts';

interface Turn {
  readonly role: string;
  readonly content: unknown;
}

/** Plays `turns` turns of one conversation. */
async function play(session: GatewaySession, turns: number, history: Turn[] = []): Promise<Turn[]> {
  for (let turn = 0; turn < turns; turn++) {
    history.push({ role: 'user', content: 'hi' });
    const response = await messages(session, history);
    expect(response.status).toBe(200);
    history.push({ role: 'assistant', content: ((await response.json()) as { content: unknown }).content });
  }
  return history;
}

/** Checks that the episode's tokens may all be trained on, and gives its certificates' notes. */
function notesOf(records: readonly CallRecord[]): string[] {
  const { sequences } = buildSequences(records);
  expect(sequences.map(({ certificate }) => certificate.grade)).not.toContain('untrainable');
  return sequences.flatMap(({ certificate }) => certificate.notes);
}

async function openMany(opened: Opened, count: number): Promise<GatewaySession[]> {
  return Promise.all(Array.from({ length: count }, () => opened.open()));
}

const processes = async (count: number, options = {}): Promise<PolicyProcess[] & AsyncDisposable> => {
  const all = await Promise.all(Array.from({ length: count }, () => PolicyProcess.start(options)));
  return Object.assign(all, {
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((each) => each.kill()));
    },
  });
};

describe('several replicas', () => {
  test('share 64 episodes evenly, and each episode stays where it began', async () => {
    await using first = await FakeVllm.start();
    await using second = await FakeVllm.start();
    await using third = await FakeVllm.start();
    const replicas = [first, second, third];
    await using opened = await openGateway(replicas.map(({ url }) => url));
    const sessions = await openMany(opened, 64);
    await Promise.all(sessions.map((session) => play(session, 3)));
    const calls = replicas.map(({ bodies }) => bodies.length);
    expect(calls[0]! + calls[1]! + calls[2]!).toBe(192);
    // An episode whose call is answered is less load than one whose call is on its way.
    expect(Math.max(...calls) - Math.min(...calls)).toBeLessThanOrEqual(18);
    for (const session of sessions) {
      const records = await session.finish();
      expect(new Set(records.map(({ replica }) => replica)).size).toBe(1);
    }
  });

  test('with equal load are told apart by what their engines have to do for everybody', async () => {
    const server = createServer((request, response) => {
      if (request.url !== '/metrics') return json(response, 200, {});
      response.end('vllm:num_requests_running{engine="0"} 40\nvllm:num_requests_waiting{engine="0"} 9\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const idle = createServer((request, response) => {
      if (request.url === '/metrics') response.end('vllm:num_requests_running{engine="0"} 0\n');
      else void sample()(request, response, null);
    });
    await new Promise<void>((resolve) => idle.listen(0, '127.0.0.1', resolve));
    const url = (of: typeof server): string => `http://127.0.0.1:${(of.address() as AddressInfo).port}`;
    try {
      await using opened = await openGateway([url(server), url(idle)]);
      // A question for a count chooses too: this episode stays on the first, as nothing is known yet.
      const counted = await opened.open();
      await fetch(`${counted.url}/v1/messages/count_tokens`, {
        method: 'POST',
        headers: { authorization: `Bearer ${counted.bearer}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
      });
      await counted.finish();
      await until(async () => {
        const session = await opened.open();
        const answer = await Promise.race([
          messages(session, 'hi').catch(() => null),
          new Promise<null>((resolve) => setTimeout(() => resolve(null), 100)),
        ]);
        const [record] = await session.finish();
        return answer?.status === 200 && record?.replica === url(idle);
      }, 'an episode begins on the idle one');
    } finally {
      for (const each of [server, idle]) {
        each.closeAllConnections();
        await new Promise((resolve) => each.close(resolve));
      }
    }
  });

  test('killed and started again in mid-run cost no episode, and its tokens stay trainable', async () => {
    await using policies = await processes(3);
    await using opened = await openGateway(policies.map(({ url }) => url));
    const sessions = await openMany(opened, 9);
    const histories = await Promise.all(sessions.map((session) => play(session, 1)));
    await policies[0]!.kill();
    await Promise.all(sessions.map((session, at) => play(session, 2, histories[at])));
    await policies[1]!.kill();
    await policies[0]!.start();
    await Promise.all(sessions.map((session, at) => play(session, 2, histories[at])));
    let moved = 0;
    for (const session of sessions) {
      expect(session.stats()).toMatchObject({ failure: null, main_turns: 5 });
      const records = await session.finish();
      const notes = notesOf(records);
      const changes = records.filter(({ replica }, at) => at > 0 && replica !== records[at - 1]!.replica);
      expect(notes.includes('replica_moved')).toBe(changes.length > 0);
      if (changes.length > 0) moved++;
      expect(records.slice(3).map(({ replica }) => replica)).not.toContain(policies[1]!.url);
    }
    expect(moved).toBeGreaterThanOrEqual(3);
  });

  test('one of which froze lose it: its calls in flight move, and it gets none until it answers again', async () => {
    await using policies = await processes(2);
    await using opened = await openGateway(
      policies.map(({ url }) => url),
      { policy: { replicas: { silenceMs: 300, checkMs: 300 } }, limits: { turn_seconds: 120 } },
    );
    const sessions = await openMany(opened, 4);
    const histories = await Promise.all(sessions.map((session) => play(session, 1)));
    policies[0]!.freeze();
    await Promise.all(sessions.map((session, at) => play(session, 1, histories[at])));
    const late = await openMany(opened, 4);
    await Promise.all(late.map((session) => play(session, 1)));
    for (const session of [...sessions, ...late]) {
      const records = await session.finish();
      notesOf(records);
      expect(records.at(-1)!.replica).toBe(policies[1]!.url);
    }
    policies[0]!.goOn();
    await until(async () => {
      const session = await opened.open();
      const other = await opened.open();
      await Promise.all([play(session, 1), play(other, 1)]);
      const used = [...(await session.finish()), ...(await other.finish())].map(({ replica }) => replica);
      return used.includes(policies[0]!.url);
    }, 'the first one gets calls again');
  });

  test('that are slow are waited for, however silent: their health speaks for them', async () => {
    const { play: slow, open } = gate();
    await using first = await FakeVllm.start(slow);
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url], {
      policy: { replicas: { silenceMs: 60, checkMs: 1_000 } },
    });
    const answer = messages(opened.session, 'hi');
    await first.asked(1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    open();
    expect((await answer).status).toBe(200);
    expect(await opened.session.finish()).toMatchObject([{ replica: first.url, notes: [] }]);
    expect(second.bodies).toHaveLength(0);
  });

  test('all dead hold their calls, and any that comes back has them all', async () => {
    await using first = await FakeVllm.start();
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url], { limits: { turn_seconds: 60 } });
    await first.stop();
    await second.stop();
    const sessions = await openMany(opened, 6);
    const answers = sessions.map((session) => messages(session, 'hi'));
    await until(() => sessions.every((session) => session.stats().hold_ms > 50), 'all are held');
    await second.restart();
    for (const answer of answers) expect((await answer).status).toBe(200);
    expect(second.bodies).toHaveLength(6);
    expect(sessions.map((session) => session.stats().failure)).toEqual(Array(6).fill(null));
  });

  test('do not wait for each other: many slow calls on one hold up none of the other’s', async () => {
    await using first = await FakeVllm.start(hang);
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url]);
    const sessions = await openMany(opened, 80);
    const answers = sessions.map((session) => messages(session, 'hi'));
    await until(() => first.bodies.length + second.bodies.length === 80, 'all were asked');
    expect(first.bodies.length).toBeGreaterThan(15);
    let done = 0;
    for (const answer of answers) void answer.then(() => done++);
    await until(() => done === second.bodies.length, 'the second one’s calls are answered');
    await Promise.all(sessions.map((session) => session.finish()));
    await Promise.all(answers);
  });
});

describe('a limit of calls a replica', () => {
  test('lets the others wait, which is no failing and not their turn’s time', async () => {
    const gates = Array.from({ length: 4 }, () => gate());
    await using vllm = await FakeVllm.start(...gates.map(({ play: each }) => each));
    await using opened = await openGateway(vllm.url, {
      policy: { replicas: { callsAtOnce: 1 } },
      limits: { turn_seconds: 60 },
    });
    const sessions = await openMany(opened, 4);
    const answers = sessions.map((session) => messages(session, 'hi'));
    for (const [at, { open }] of gates.entries()) {
      await vllm.asked(at + 1);
      await new Promise((resolve) => setTimeout(resolve, 60));
      expect(vllm.bodies).toHaveLength(at + 1);
      open();
    }
    for (const answer of answers) expect((await answer).status).toBe(200);
    const held = sessions.map((session) => session.stats().hold_ms).sort((a, b) => a - b);
    expect(held[0]).toBeLessThan(60);
    expect(held[3]).toBeGreaterThan(150);
    expect(sessions.map((session) => session.stats().failure)).toEqual(Array(4).fill(null));
  });

  test('keeps hold_seconds: a call that waits longer is the episode’s infra failure, and takes no slot', async () => {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url, {
      policy: { replicas: { callsAtOnce: 1 } },
      limits: { turn_seconds: 60, hold_seconds: 0.3 },
    });
    const first = messages(opened.session, 'hi');
    await vllm.asked(1);
    const second = await opened.open();
    expect((await messages(second, 'hi')).status).toBe(503);
    expect(second.stats().failure).toMatchObject({ class: 'infra', code: 'policy_hold_deadline' });
    expect(opened.session.stats().failure).toBeNull();
    expect(vllm.bodies).toHaveLength(1);
    await opened.session.finish();
    await first;
  });

  test('is no trap: those who wait for a replica that dies go to another', async () => {
    await using first = await FakeVllm.start(hang);
    await using second = await FakeVllm.start();
    await using opened = await openGateway([first.url, second.url], {
      policy: { replicas: { callsAtOnce: 1 } },
    });
    const others = await openMany(opened, 3);
    const answers = [opened.session, ...others].map((session) => messages(session, 'hi'));
    await first.asked(1);
    await first.stop();
    for (const answer of answers) expect((await answer).status).toBe(200);
    expect(second.bodies).toHaveLength(4);
  });
});
