import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { loadSettings } from '../../src/config/index.ts';
import {
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../src/policy/index.ts';
import { admission, downLine, probePolicies } from '../../workers/probe-policies.ts';
import { FakeVllm } from '../gateway/support/fake-vllm.ts';
import { messages, openGateway } from '../gateway/support/open-gateway.ts';
import { until } from '../support/wait.ts';
import { said, speak, vllmStreamed, vllmUnary } from '../gateway/engines/support/mouths.ts';

const settings = (
  urls: readonly string[],
  rest: Record<string, string> = {},
): Parameters<typeof probePolicies>[0] => ({
  settings: loadSettings({ ROLLPOOL_POLICY_URL: urls.join(','), ...rest }),
});

test('replicas of two kinds are refused, naming each', async () => {
  await using vllm = await startScriptedPolicy({ scripts: [], model: 'policy' });
  await using sglang = await startScriptedPolicy({ scripts: [], model: 'policy', engine: 'sglang' });
  await expect(probePolicies(settings([vllm.url, sglang.url]))).rejects.toThrow(
    `the replicas must be of one kind of server: ${vllm.url} is vllm, ${sglang.url} is sglang`,
  );
  expect(await probePolicies(settings([sglang.url]))).toMatchObject({ engine: 'sglang' });
});

test('a policy that streams no ids is refused only where it is to stream', async () => {
  await using vllm = await FakeVllm.start((_request, response, body: { stream?: boolean }) =>
    speak(
      response,
      body.stream === true ? vllmStreamed : vllmUnary,
      body.stream === true ? said({ ids: null }) : said(),
    ),
  );
  expect(await probePolicies(settings([vllm.url]))).toMatchObject({ streaming_ids: false });
  const streamed = settings([vllm.url], { ROLLPOOL_POLICY_STREAMING: 'true' });
  await expect(probePolicies(streamed)).rejects.toThrow(
    /returns no token ids while it streams: nothing it samples/,
  );
  expect(await probePolicies({ ...streamed, allowUntrainable: true })).toMatchObject({
    streaming_ids: false,
  });
  // SGLang is never asked to.
  await using sglang = await startScriptedPolicy({ scripts: [], model: 'policy', engine: 'sglang' });
  const both = settings([sglang.url], { ROLLPOOL_POLICY_STREAMING: 'true' });
  expect(await probePolicies(both)).toMatchObject({ engine: 'sglang', streaming_ids: false });
});

const scripted = (options: Partial<ScriptedPolicyOptions> = {}): Promise<ScriptedPolicy> =>
  startScriptedPolicy({
    scripts: [{ match: 'hi', turns: [{ repeat: 1_000, turns: [{ text: 'an answer' }] }] }],
    model: 'policy',
    ...options,
  });

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('replicas of which one is down', () => {
  test('are probed by those that answer, and the one that does not is named in one line', async () => {
    await using policy = await scripted();
    const dead = `http://127.0.0.1:${await freePort()}`;
    const found = await probePolicies(settings([dead, policy.url]));
    expect(found).toMatchObject({
      model: 'policy',
      engine: 'vllm',
      logprobs_mode: 'processed',
      down: [dead],
    });
    expect(downLine(found)).toMatch(new RegExp(`^no answer from ${dead}: .+$`));
    expect(downLine(await probePolicies(settings([policy.url])))).toBeNull();
  });

  test('and that only answers with failures of its own count as down, too', async () => {
    await using policy = await scripted();
    await using ill = await FakeVllm.start((_request, response) => {
      response.writeHead(503).end('{"error": "starting"}');
    });
    expect(await probePolicies(settings([policy.url, ill.url]))).toMatchObject({ down: [ill.url] });
  });

  test('are refused where none answers, and where one that answers is not what it should be', async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    await expect(probePolicies(settings([dead, `http://127.0.0.1:${await freePort()}`]))).rejects.toThrow(
      /^the policy at http:\/\/127.0.0.1:\d+ cannot be used: the policy does not answer/,
    );
    await using policy = await scripted();
    await using other = await scripted({ model: 'another' });
    await expect(probePolicies(settings([policy.url, dead, other.url]))).rejects.toThrow(
      `the replicas must be of one model: ${policy.url} is policy, ${other.url} is another`,
    );
    await expect(
      probePolicies(settings([policy.url, dead, other.url], { ROLLPOOL_MODEL: 'policy' })),
    ).rejects.toThrow(/does not serve "policy"; it serves another/);
  });

  test('are refused where they give two kinds of logprobs', async () => {
    await using processed = await scripted();
    await using raw = await scripted({ logprobsMode: 'raw' });
    await expect(probePolicies(settings([processed.url, raw.url]))).rejects.toThrow(
      `the replicas must be of one kind of logprobs: ${processed.url} is processed, ${raw.url} is raw`,
    );
  });

  test('give it no call before it was probed: one of the same kind takes calls then', async () => {
    await using policy = await scripted();
    const port = await freePort();
    const late = `http://127.0.0.1:${port}`;
    const options = settings([policy.url, late]);
    const found = await probePolicies(options);
    const asked: string[] = [];
    const admit = admission(found, options);
    await using opened = await openGateway([late, policy.url], {
      policy: {
        replicas: {
          down: found.down,
          admit: (url, signal) => {
            asked.push(url);
            return admit(url, signal);
          },
        },
      },
    });
    await messages(opened.session, 'hi');
    await using back = await scripted({ port });
    const records = await until(async () => {
      const session = await opened.open();
      await (await messages(session, 'hi')).text();
      const found = await session.finish();
      return found[0]!.replica === late ? found : null;
    }, 'an episode begins on the replica that came up');
    expect(records[0]).toMatchObject({ fate: 'delivered', notes: [] });
    expect(asked).toEqual([late]);
    expect(back.samples().length).toBeGreaterThan(0);
    expect(await opened.session.finish()).toMatchObject([{ replica: policy.url }]);
  });

  test.each([
    ['another model', { model: 'another' }, /does not serve "policy"; it serves another/],
    ['other logprobs', { logprobsMode: 'raw' }, /it gives raw logprobs, the others processed/],
    ['another kind of server', { engine: 'sglang' }, /it is sglang, the others are vllm/],
  ] as const)(
    'never use it when it comes up with %s: one clear line says why',
    async (_what, wrong, said) => {
      await using policy = await scripted();
      const port = await freePort();
      const late = `http://127.0.0.1:${port}`;
      const options = settings([policy.url, late]);
      const found = await probePolicies(options);
      const lines: { level: number; msg: string; replica: string }[] = [];
      const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
      await using opened = await openGateway([late, policy.url], {
        gateway: { log },
        policy: { replicas: { down: found.down, admit: admission(found, options) } },
      });
      await using stranger = await scripted({ ...wrong, port });
      await until(() => lines.some(({ level }) => level === 50), 'it is refused');
      const before = stranger.samples().length;
      for (let calls = 0; calls < 4; calls++) {
        const session = await opened.open();
        await (await messages(session, 'hi')).text();
        expect(await session.finish()).toMatchObject([{ replica: policy.url, fate: 'delivered' }]);
      }
      expect(stranger.samples()).toHaveLength(before);
      expect(lines.filter(({ level }) => level >= 40)).toMatchObject([{ level: 50, replica: late }]);
      expect(lines.find(({ level }) => level === 50)!.msg).toMatch(said);
    },
  );

  test('without ids are not used either, and one that still does not answer is no error', async () => {
    await using policy = await scripted();
    const found = await probePolicies(settings([policy.url]));
    await using plain = await FakeVllm.start((_request, response) =>
      speak(response, vllmUnary, said({ ids: null })),
    );
    const { signal } = new AbortController();
    const options = settings([policy.url, plain.url]);
    expect(await admission(found, options)(plain.url, signal)).toMatch(/returns no token ids/);
    await expect(
      admission(found, options)(`http://127.0.0.1:${await freePort()}`, signal),
    ).rejects.toMatchObject({ down: true });
  });
});
