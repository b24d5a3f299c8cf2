import { describe, expect, test } from 'vitest';
import { probePolicy } from '../../src/gateway/probe.ts';
import { startScriptedPolicy } from '../../src/policy/index.ts';
import { completion, FakeVllm, fault, json, type Loose, type Play } from './support/fake-vllm.ts';

describe('the probe of a policy', () => {
  test.each([
    ['plain', 'processed', []],
    ['hostile', 'raw', ['--logprobs-mode processed_logprobs']],
  ] as const)(
    'finds what a sound one can do: %s template, %s logprobs',
    async (template, logprobsMode, missing) => {
      await using policy = await startScriptedPolicy({
        scripts: [],
        model: 'policy',
        template,
        logprobsMode,
      });
      expect(await probePolicy({ url: `${policy.url}/v1/`, model: 'policy' })).toEqual({
        engine: 'vllm',
        model: 'policy',
        models: ['policy'],
        ids: true,
        prompt_ids: true,
        streaming_ids: true,
        logprobs: true,
        logprobs_mode: logprobsMode,
        tools: true,
        system_in_place: template === 'plain',
        missing_flags: missing,
      });
    },
  );

  test('names the flags of one that gives no ids and takes no tools', async () => {
    const poor: Play = (request, response, body: Loose) => {
      if (body.tools)
        return fault(400, '"auto" tool choice requires --enable-auto-tool-choice')(request, response, body);
      const made = completion();
      delete made['prompt_token_ids'];
      delete made['choices'][0].token_ids;
      json(response, 200, made);
    };
    await using vllm = await FakeVllm.start(poor);
    const found = await probePolicy({ url: vllm.url, model: 'policy' });
    expect(found).toMatchObject({ ids: false, prompt_ids: false, logprobs: true, tools: false });
    expect(found.missing_flags).toEqual([
      expect.stringMatching(/^--return-tokens-as-token-ids/),
      '--logprobs-mode processed_logprobs',
      expect.stringMatching(/^--enable-auto-tool-choice --tool-call-parser/),
    ]);
  });

  test('says in one line what is wrong with one that cannot be used', async () => {
    await expect(probePolicy({ url: 'http://127.0.0.1:9', model: 'm' })).rejects.toThrow(
      /^the policy at http:\/\/127\.0\.0\.1:9 cannot be used: the policy does not answer \(ECONNREFUSED\)$/,
    );
    await expect(probePolicy({ url: 'ftp://x', model: 'm' })).rejects.toThrow(/must begin with http/);
    await using policy = await startScriptedPolicy({ scripts: [], model: 'policy', apiKey: 'k' });
    await expect(probePolicy({ url: policy.url, model: 'policy' })).rejects.toThrow(/refuses the API key/);
    await expect(probePolicy({ url: policy.url, model: 'other', apiKey: 'k' })).rejects.toThrow(
      /does not serve "other"; it serves policy/,
    );
  });
});
