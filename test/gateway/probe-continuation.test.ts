import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/gateway/engines/engine-error.ts';
import { Replica } from '../../src/gateway/policy/replica.ts';
import { probeContinuation, type ContinuationProbe } from '../../src/gateway/probe-continuation.ts';
import { startScriptedPolicy } from '../../src/policy/index.ts';
import { completion, FakeVllm, fault, json, type Loose, type Play } from './support/fake-vllm.ts';

async function probe(url: string, kind: 'vllm' | 'sglang' = 'vllm'): Promise<ContinuationProbe> {
  const replica = new Replica(url, undefined);
  try {
    return await probeContinuation(replica, kind, 'policy', AbortSignal.timeout(20_000));
  } finally {
    await replica.close();
  }
}

describe('whether conversations can go on from ids', () => {
  test.each(['vllm', 'sglang'] as const)('%s: the format is read off its own template', async (engine) => {
    await using policy = await startScriptedPolicy({
      scripts: [],
      model: 'policy',
      engine,
      template: 'hostile',
    });
    expect(await probe(policy.url, engine)).toEqual({ call_format: 'hermes', continues: true });
  });

  const rendered = (): { count: number; tokens: number[] } => ({ count: 3, tokens: [1, 2, 3] });
  const continues: Play = (_request, response, body: Loose) => {
    const ids = [11];
    json(response, 200, {
      choices: [
        {
          text: 'x',
          token_ids: ids,
          prompt_token_ids: body.prompt,
          logprobs: { token_logprobs: [-0.5] },
          finish_reason: 'length',
        },
      ],
      usage: { prompt_tokens: body.prompt.length, completion_tokens: 1 },
    });
  };

  test('a template whose calls nobody can read off is known to be one', async () => {
    await using vllm = await FakeVllm.start(continues);
    vllm.tokenize = rendered;
    expect(await probe(vllm.url)).toEqual({ call_format: null, continues: true });
  });

  const no: ContinuationProbe = { call_format: null, continues: false };
  test.each<[string, Play, typeof rendered | null]>([
    ['renders no prompt', continues, null],
    ['has no route for ids', fault(404), rendered],
    ['refuses ids', fault(400), rendered],
    ['answers with a chat', (_request, response) => json(response, 200, completion()), rendered],
    ['answers with something else', (_request, response) => json(response, 200, '<html>'), rendered],
    ['fails at it', fault(500), rendered],
    [
      'answers another prompt',
      (request, response, body: Loose) => continues(request, response, { ...body, prompt: [9, 9, 9] }),
      rendered,
    ],
    [
      'counts another prompt',
      (_request, response) =>
        json(response, 200, {
          choices: [{ text: 'x', token_ids: [11], logprobs: { token_logprobs: [-0.5] } }],
          usage: { prompt_tokens: 4, completion_tokens: 1 },
        }),
      rendered,
    ],
    [
      'gives no logprobs',
      (_request, response) =>
        json(response, 200, {
          choices: [{ text: 'x', token_ids: [11] }],
          usage: { prompt_tokens: 3, completion_tokens: 1 },
        }),
      rendered,
    ],
  ])('no: the engine %s', async (_name, play, tokenize) => {
    await using vllm = await FakeVllm.start(play);
    vllm.tokenize = tokenize;
    expect(await probe(vllm.url)).toEqual(no);
  });

  test('a busy engine is asked again', async () => {
    await using vllm = await FakeVllm.start(fault(503), continues);
    vllm.tokenize = rendered;
    expect(await probe(vllm.url)).toEqual({ call_format: null, continues: true });
  });

  test('an engine out of reach is said to be', async () => {
    await using vllm = await FakeVllm.start();
    await vllm.stop();
    await expect(probe(vllm.url)).rejects.toThrow(EngineError);
  });
});
