import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  createFlightRecorder,
  findTraces,
  readTrace,
  type FlightRecorder,
  type Trace,
} from '../../../src/gateway/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { FakeVllm, fault, sample } from '../support/fake-vllm.ts';
import { messages, openGateway, type Opened } from '../support/open-gateway.ts';
import { until } from '../../support/wait.ts';
import { temporaryDirectory } from './temporary.ts';

async function openRecorded(
  directory: string,
  vllm: FakeVllm,
  limits = {},
): Promise<{ opened: Opened; recorder: FlightRecorder } & AsyncDisposable> {
  const recorder = createFlightRecorder({
    directory,
    worker: 'worker-1',
    secrets: ['policy-key', ''],
    log: silentLogger,
  });
  const opened = await openGateway(vllm.url, {
    gateway: { recorder },
    policy: { apiKey: 'policy-key' },
    limits,
  });
  return {
    opened,
    recorder,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

async function onlyTrace(directory: string): Promise<Trace> {
  const files = await findTraces(directory, 'episode-');
  expect(files).toHaveLength(1);
  return readTrace(files[0]!);
}

describe('an episode that is recorded', () => {
  test('has each call with its request’s new messages, answer, fate, replica, versions and counts of ids', async () => {
    await using directory = await temporaryDirectory();
    await using vllm = await FakeVllm.start(
      sample({ tools: [{ name: 'look', arguments: '{"where": "here"}' }] }),
      sample({ content: 'done' }),
    );
    await using recorded = await openRecorded(directory.path, vllm);
    const { session } = recorded.opened;
    const tools = [{ name: 'look', input_schema: { type: 'object', properties: {} } }];
    const first = await messages(session, 'find it', { tools });
    const answer = (await first.json()) as { content: { id: string }[] };
    await messages(
      session,
      [
        { role: 'user', content: 'find it' },
        { role: 'assistant', content: answer.content },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: answer.content[0]!.id, content: 'nothing' }],
        },
      ],
      { tools },
    );
    await session.finish();
    await recorded.recorder.settled();
    const trace = await onlyTrace(directory.path);
    expect(trace).toMatchObject({
      attempt: 1,
      damaged: 0,
      cut: false,
      episode: { schema: 'rollpool.trace/1', attempt: 1, worker: 'worker-1', model: 'policy', run_id: null },
      end: { stats: { calls: 2, main_turns: 2, completion_tokens: 6 }, failure: null },
    });
    expect(trace.calls).toMatchObject([
      {
        begin: { role: 'main', tools: ['look'] },
        call: {
          fate: 'delivered',
          replica: vllm.url,
          version_start: null,
          finish_reason: 'tool_calls',
          prompt_token_ids: 4,
          token_ids: 3,
          logprobs: 3,
          new_messages: [{ role: 'user', content: 'find it' }],
          answer: { tool_calls: [{ function: { name: 'look', arguments: '{"where": "here"}' } }] },
        },
      },
      { call: { fate: 'delivered', new_messages: [{ role: 'tool', content: 'nothing' }] } },
    ]);
    expect(trace.calls[1]!.begin!.tools).toBeUndefined();
  });

  test('has the failures that were tried again, and why a call got no answer', async () => {
    await using directory = await temporaryDirectory();
    await using vllm = await FakeVllm.start(fault(500, 'oops'), fault(400, 'no such thing'));
    await using recorded = await openRecorded(directory.path, vllm);
    const { session } = recorded.opened;
    await messages(session, 'hi');
    await session.finish();
    await recorded.recorder.settled();
    const [only] = (await onlyTrace(directory.path)).calls;
    expect(only!.call).toMatchObject({
      fate: 'failed',
      retries: [{ replica: vllm.url, error: 'the policy answered HTTP 500: oops' }],
      error: 'the policy answered HTTP 400: no such thing',
      answer: null,
      token_ids: null,
    });
  });

  test('is on the disk call by call, with the call in flight as begun', async () => {
    await using directory = await temporaryDirectory();
    await using vllm = await FakeVllm.start(sample(), () => {});
    await using recorded = await openRecorded(directory.path, vllm);
    const { session } = recorded.opened;
    await messages(session, 'one');
    const hanging = messages(session, 'two').catch(() => undefined);
    await vllm.asked(2);
    await recorded.recorder.settled();
    const trace = await until(async () => {
      const read = await onlyTrace(directory.path);
      return read.calls[0]?.call?.fate === 'delivered' ? read : null;
    }, 'the first call’s delivery is written');
    expect(trace.end).toBeNull();
    expect(trace.calls).toMatchObject([{ call: { fate: 'delivered' } }, { begin: { call: 1 }, call: null }]);
    await session.finish();
    await hanging;
    await recorded.recorder.settled();
    expect((await onlyTrace(directory.path)).calls[1]).toMatchObject({ call: { fate: 'aborted' } });
  });

  test('holds neither bearer nor key, whoever said them, and is readable by its owner alone', async () => {
    await using directory = await temporaryDirectory();
    const said: string[] = [];
    await using vllm = await FakeVllm.start((request, response, body) =>
      sample({ content: said.join(' ') })(request, response, body),
    );
    await using recorded = await openRecorded(directory.path, vllm);
    const { session } = recorded.opened;
    said.push(session.bearer, 'policy-key');
    await messages(session, `the environment has ${session.bearer} and policy-key`);
    await session.finish();
    await recorded.recorder.settled();
    const { path } = await onlyTrace(directory.path);
    const text = await readFile(path, 'utf8');
    expect(text).toContain('the environment has [secret] and [secret]');
    expect(text).not.toContain(session.bearer);
    expect(text).not.toContain('policy-key');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700);
  });

  test('of another run, and another attempt, has a file of its own', async () => {
    await using directory = await temporaryDirectory();
    await using recorder = createFlightRecorder({ directory: directory.path, log: silentLogger });
    const episode = { episode_id: 'e1', model: 'm' };
    for (const [run_id, attempt] of [
      ['a/../b', 1],
      ['..', 2],
      ['c', 10],
    ] as const) {
      recorder.open({ ...episode, run_id, attempt }).fate(0, 'delivered');
    }
    await recorder.settled();
    expect((await readdir(directory.path)).sort()).toEqual(['%2E.', 'a%2F..%2Fb', 'c']);
    expect((await findTraces(directory.path, 'e1')).map(({ attempt }) => attempt)).toEqual([1, 2, 10]);
    expect(await findTraces(directory.path, 'e2')).toEqual([]);
    expect(await findTraces(join(directory.path, 'none'), 'e1')).toEqual([]);
  });
});
