import { describe, expect, test } from 'vitest';
import { probePolicy } from '../../src/gateway/probe.ts';
import { startScriptedPolicy } from '../../src/policy/index.ts';
import {
  said,
  sglangChat,
  sglangChatMeta,
  speak,
  vllmStreamed,
  vllmUnary,
  type Said,
} from './engines/support/mouths.ts';
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
        call_format: 'hermes',
        continues: true,
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

  test('tells a vLLM whose streams drop ids from one that keeps them', async () => {
    const streams =
      (answer: Said): Play =>
      (_request, response, body: Loose) =>
        speak(
          response,
          body.stream === true ? vllmStreamed : vllmUnary,
          body.stream === true ? answer : said(),
        );
    for (const [answer, streaming_ids] of [
      [said(), true],
      [said({ prompt: null }), false],
      [said({ ids: null }), false],
      [said({ logprobs: null }), false],
    ] as const) {
      await using vllm = await FakeVllm.start(streams(answer));
      const found = await probePolicy({ url: vllm.url, model: 'policy' });
      expect(found).toMatchObject({ ids: true, prompt_ids: true, logprobs: true, streaming_ids });
    }
  });

  test('knows an SGLang by its routes, whichever of its ids it gives, and what it was started without', async () => {
    const old: Play = (_request, response) => speak(response, sglangChatMeta, said());
    await using server = await FakeVllm.start(old);
    server.gets.set('/v1/models', { data: [{ id: 'policy', owned_by: 'somebody' }] });
    server.gets.set('/get_model_info', { model_path: 'policy' });
    server.gets.set('/server_info', { tool_call_parser: null });
    const found = await probePolicy({ url: server.url, model: null });
    expect(found).toMatchObject({
      engine: 'sglang',
      ids: true,
      prompt_ids: true,
      logprobs: true,
      streaming_ids: false,
      tools: false,
      missing_flags: ['--tool-call-parser <name>'],
    });
    server.plays = [(_request, response) => speak(response, sglangChat, said({ ids: null, prompt: null }))];
    const older = await probePolicy({ url: server.url, model: null });
    expect(older).toMatchObject({ ids: false, prompt_ids: false });
    expect(older.missing_flags[0]).toMatch(/^SGLang 0\.5\.13 or newer/);
  });

  test('a server of nobody’s is spoken to as vLLM', async () => {
    await using server = await FakeVllm.start();
    server.gets.set('/v1/models', { data: [{ id: 'policy', owned_by: 'somebody' }] });
    expect(await probePolicy({ url: server.url, model: null })).toMatchObject({
      engine: 'unknown',
      ids: true,
    });
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
