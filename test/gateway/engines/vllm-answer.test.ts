import { describe, expect, test } from 'vitest';
import type { EngineError } from '../../../src/gateway/engines/engine-error.ts';
import { parseLenientJson } from '../../../src/gateway/engines/lenient-json.ts';
import { vllmAnswer } from '../../../src/gateway/engines/vllm-answer.ts';
import { replyFault } from '../../../src/gateway/engines/engine-faults.ts';
import { completion, type Loose } from '../support/fake-vllm.ts';

function changed(change: (body: Loose) => void): Loose {
  const body = completion({ ids: [5, 6], logprobs: [-0.25, -1.1] });
  change(body);
  return vllmAnswer(parseLenientJson(JSON.stringify(body)));
}

describe('ids', () => {
  test('come from token_ids, and the prompt’s from the root or from the choice', () => {
    expect(changed(() => {})).toMatchObject({
      token_ids: Int32Array.of(5, 6),
      prompt_token_ids: Int32Array.of(1, 2, 3, 4),
      reasons: [],
    });
    const perChoice = changed((body) => {
      body.choices[0].prompt_token_ids = [9];
      delete body.prompt_token_ids;
    });
    expect(perChoice.prompt_token_ids).toEqual(Int32Array.of(9));
  });

  test('come out of "token_id:N" where token_ids is missing', () => {
    const named = changed((body) => {
      delete body.choices[0].token_ids;
      body.choices[0].logprobs.content.forEach(
        (entry: Loose, at: number) => (entry.token = `token_id:${at + 50}`),
      );
    });
    expect(named.token_ids).toEqual(Int32Array.of(50, 51));
    const mixed = changed((body) => {
      delete body.choices[0].token_ids;
      body.choices[0].logprobs.content[0].token = 'token_id:50';
    });
    expect(mixed.token_ids).toBeNull();
  });

  test('named beyond 32 bits are none: cut down they would be others', () => {
    const named = changed((body) => {
      delete body.choices[0].token_ids;
      body.choices[0].logprobs.content.forEach((entry: Loose) => (entry.token = 'token_id:4294967297'));
    });
    expect(named.token_ids).toBeNull();
  });

  test('that disagree between the two are said to', () => {
    const disagreeing = changed((body) => {
      body.choices[0].logprobs.content.forEach((entry: Loose) => (entry.token = 'token_id:5'));
    });
    expect(disagreeing).toMatchObject({ token_ids: Int32Array.of(5, 6), reasons: ['length_mismatch'] });
  });

  test('that are no ids are none', () => {
    for (const ids of [null, 'x', [1.5, 2], [-1, 2], [1, null], [2 ** 31, 1]]) {
      expect(changed((body) => (body.choices[0].token_ids = ids)).token_ids).toBeNull();
    }
  });
});

describe('logprobs', () => {
  test('are float32 of the engine’s, -9999 kept, anything else NaN', () => {
    const given = [-1.1, -9999, null, 'x', undefined];
    const made = changed(
      (body) => (body.choices[0].logprobs.content = given.map((logprob) => ({ logprob }))),
    );
    expect(Array.from(made.logprobs)).toEqual([Math.fround(-1.1), -9999, NaN, NaN, NaN]);
    expect(changed((body) => (body.choices[0].logprobs = null)).logprobs).toBeNull();
  });

  test('NaN as Python writes it is read, and text that says NaN is left alone', () => {
    const text = JSON.stringify(completion({ content: 'NaN "Infinity\\"', ids: [5], logprobs: [-0.5] }));
    const made = vllmAnswer(parseLenientJson(text.replace('"logprob":-0.5', '"logprob": NaN')))!;
    expect(made.content).toBe('NaN "Infinity\\"');
    expect(made.logprobs).toEqual(Float32Array.of(NaN));
  });
});

test('reasoning is read under both of its names; arguments stay the sampled text', () => {
  expect(changed((body) => (body.choices[0].message.reasoning_content = 'r')).reasoning).toBe('r');
  const calls = changed((body) => {
    body.choices[0].message.tool_calls = [
      { id: 'a', function: { name: 'x', arguments: '{ "a":1}' } },
      { function: { name: 'y' } },
      { function: { name: '' } },
    ];
  }).tool_calls;
  expect(calls).toEqual([
    { id: 'a', name: 'x', arguments: '{ "a":1}' },
    { id: '', name: 'y', arguments: '' },
  ]);
});

test('what is no completion is none', () => {
  for (const body of [null, [], {}, { choices: [] }, { choices: [{}] }]) expect(vllmAnswer(body)).toBeNull();
});

describe('errors', () => {
  const of = (status: number, message: string, headers = {}): EngineError =>
    replyFault({ status, headers, text: JSON.stringify({ error: { message } }) });

  test('every wording of an overflow gives the two numbers (case 50)', () => {
    const words = [
      "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 800 tokens and your request has 900 input tokens (32000 > 800 - 900). (parameter=max_tokens, value=32000)",
      "This model's maximum context length is 800 tokens. However, you requested 1000 tokens (900 in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
      "This model's maximum context length is 800 tokens. However, your request has 900 input tokens. Please reduce the length of the input messages.",
      'The decoder prompt (length 900) is longer than the maximum model length of 800. Make sure that `max_model_len` is no smaller than the number of text tokens.',
      "The input (900 tokens) is longer than the model's context length (800 tokens).",
      "Requested token count exceeds the model's maximum context length of 800 tokens. You requested a total of 1000 tokens: 900 tokens from the input messages and 100 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
    ];
    for (const each of words) {
      expect(of(400, each)).toMatchObject({ fault: 'overflow', tokens: { prompt: 900, limit: 800 } });
    }
  });

  test('others are busy, rejected or ours to mend', () => {
    expect(of(429, 'x', { 'retry-after': '2' })).toMatchObject({ fault: 'busy', retryAfterMs: 2000 });
    expect(of(500, 'x').fault).toBe('busy');
    expect(of(503, 'x').fault).toBe('busy');
    expect(of(400, 'x').fault).toBe('rejected');
    expect(of(422, 'x').fault).toBe('rejected');
    expect(of(401, 'x').fault).toBe('misconfigured');
    expect(of(404, 'x').fault).toBe('misconfigured');
    expect(replyFault({ status: 502, headers: {}, text: '<html>bad gateway</html>' }).message).toContain(
      'bad gateway',
    );
  });
});
