import { expect, test } from 'vitest';
import { loadSettings } from '../../src/config/index.ts';
import { startScriptedPolicy } from '../../src/policy/index.ts';
import { probePolicies } from '../../workers/worker.ts';
import { FakeVllm } from '../gateway/support/fake-vllm.ts';
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
