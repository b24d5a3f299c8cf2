import { describe, expect, test } from 'vitest';
import { resolveSampling, type ChatMessage } from '../../../src/contracts/index.ts';
import type { EngineRequest } from '../../../src/gateway/engines/engine.ts';
import { sglangChatAnswer, sglangGenerateAnswer } from '../../../src/gateway/engines/sglang-answer.ts';
import {
  sglangChatBody,
  sglangGenerateBody,
  sglangMessages,
} from '../../../src/gateway/engines/sglang-body.ts';
import { SglangEngine } from '../../../src/gateway/engines/sglang.ts';
import { Replica } from '../../../src/gateway/policy/replica.ts';
import { FakeVllm, fault, json, type Loose } from '../support/fake-vllm.ts';
import { said, sglangChat, sglangChatMeta, sglangGenerate, speak } from './support/mouths.ts';

const request: EngineRequest = {
  messages: [{ role: 'user', content: 'hi' }],
  sampling: resolveSampling({ temperature: 0.7, top_k: 20 }),
  seed: 3,
  max_tokens: 9,
  stop: ['END'],
  upstreamId: (id) => `up-${id}`,
};

describe('what SGLang is asked', () => {
  test('chat: everything explicit, ids in both spellings, never streamed', () => {
    expect(sglangChatBody('m', request, 'r1')).toEqual({
      model: 'm',
      messages: request.messages,
      stop: ['END'],
      max_tokens: 9,
      n: 1,
      stream: false,
      temperature: 0.7,
      top_p: 1,
      top_k: 20,
      min_p: 0,
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      seed: 3,
      logprobs: true,
      top_logprobs: 0,
      return_token_ids: true,
      return_prompt_token_ids: true,
      return_meta_info: true,
      rid: 'r1',
    });
  });

  test('/generate: ids, no text of the prompt, special tokens kept', () => {
    expect(JSON.parse(sglangGenerateBody(Int32Array.of(5, 6), request, 'r2'))).toEqual({
      input_ids: [5, 6],
      sampling_params: {
        max_new_tokens: 9,
        temperature: 0.7,
        top_p: 1,
        top_k: 20,
        min_p: 0,
        presence_penalty: 0,
        frequency_penalty: 0,
        repetition_penalty: 1,
        stop: ['END'],
        sampling_seed: 3,
        n: 1,
        skip_special_tokens: false,
        spaces_between_special_tokens: false,
      },
      return_logprob: true,
      logprob_start_len: -1,
      top_logprobs_num: 0,
      stream: false,
      rid: 'r2',
    });
  });

  test('history: thinking under its older name, arguments that are objects, the engine’s own ids', () => {
    const call = (id: string, given: string): Loose => ({
      id,
      type: 'function',
      function: { name: 'f', arguments: given },
    });
    const history: ChatMessage[] = [
      { role: 'user', content: 'a' },
      {
        role: 'assistant',
        content: null,
        reasoning: 'hm',
        tool_calls: [call('1', '{ "x":1}'), call('2', ''), call('3', 'null'), call('4', '{"cut')],
      },
      { role: 'tool', tool_call_id: '1', content: 'r' },
    ];
    expect(sglangMessages(history, request.upstreamId)).toEqual([
      { role: 'user', content: 'a' },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'hm',
        tool_calls: [
          call('up-1', '{ "x":1}'),
          call('up-2', '{}'),
          call('up-3', '{}'),
          call('up-4', '{"raw":"{\\"cut"}'),
        ],
      },
      { role: 'tool', tool_call_id: 'up-1', content: 'r' },
    ]);
  });

  test('an answer that the agent began is gone on with', () => {
    const begun: EngineRequest = {
      ...request,
      messages: [...request.messages, { role: 'assistant', content: 'The' }],
    };
    expect(sglangChatBody('m', begun, 'r')).toMatchObject({ continue_final_message: true });
  });
});

describe('what SGLang answers', () => {
  const chat = (change: (body: Loose) => void, mouth = sglangChat): Loose => {
    const body = JSON.parse(mouth.write(said({ ids: [5, 6], logprobs: [-0.5, -0.25] })));
    change(body);
    return sglangChatAnswer(body);
  };

  test('ids come from the choice, from meta_info, or from the extension of the response', () => {
    const ids = { token_ids: Int32Array.of(5, 6), prompt_token_ids: Int32Array.of(1, 2, 3, 4, 5) };
    expect(chat(() => {})).toMatchObject(ids);
    expect(chat(() => {}, sglangChatMeta)).toMatchObject(ids);
    const extended = chat((body) => {
      delete body.choices[0].token_ids;
      delete body.choices[0].prompt_token_ids;
      body.sglext = { input_ids: [1, 2, 3, 4, 5], output_ids: [[5, 6]] };
    });
    expect(extended).toMatchObject({ ...ids, reasons: [] });
  });

  test('ids that disagree are said to', () => {
    expect(
      chat((body) => {
        body.choices[0].token_ids = [5, 7];
      }, sglangChatMeta).reasons,
    ).toEqual(['length_mismatch']);
    const generated = JSON.parse(sglangGenerate.write(said({ ids: [5, 6], logprobs: [-1, -1] })));
    generated.output_ids = [5];
    expect(sglangGenerateAnswer(generated, {}, Int32Array.of(1), 'hermes')!.reasons).toEqual([
      'length_mismatch',
    ]);
    generated.output_ids = [5, 6];
    generated.meta_info.output_token_logprobs[1] = [-1, 'x', null];
    expect(sglangGenerateAnswer(generated, {}, Int32Array.of(1), 'hermes')!.reasons).toEqual([
      'length_mismatch',
    ]);
  });

  test('logprobs beside their ids go before those of the chat, which a parser may have grouped', () => {
    const answer = chat((body) => {
      body.choices[0].logprobs = { content: [{ token: 'both', logprob: -0.75 }] };
    }, sglangChatMeta);
    expect(answer).toMatchObject({ logprobs: Float32Array.of(-0.5, -0.25), reasons: [] });
  });

  test('/generate without meta_info or text is no answer', () => {
    for (const body of [null, [], {}, { text: 'x' }, { meta_info: {} }]) {
      expect(sglangGenerateAnswer(body, {}, Int32Array.of(1), 'hermes')).toBeNull();
    }
  });
});

describe('the SGLang engine', () => {
  test('goes on from ids where the request has them, and renders messages where not', async () => {
    await using server = await FakeVllm.start((_request, response, body: Loose) =>
      speak(response, body.input_ids === undefined ? sglangChat : sglangGenerate, said()),
    );
    const replica = new Replica(server.url, undefined);
    const engine = new SglangEngine({ model: 'm', callFormat: 'hermes' });
    const { signal } = new AbortController();
    await engine.complete(replica, request, signal);
    const prompt = Int32Array.of(1, 2, 3, 4, 5);
    const answer = await engine.complete(replica, { ...request, prompt_token_ids: prompt }, signal);
    expect(answer.prompt_token_ids).toEqual(prompt);
    expect(server.bodies.map((body: Loose) => [body.input_ids, body.messages])).toEqual([
      [undefined, request.messages],
      [[1, 2, 3, 4, 5], undefined],
    ]);
    await replica.close();
  });

  test('counts a prompt by sampling one token behind it', async () => {
    await using server = await FakeVllm.start((_request, response) => speak(response, sglangChat, said()));
    const replica = new Replica(server.url, undefined);
    const engine = new SglangEngine({ model: 'm' });
    const { signal } = new AbortController();
    expect(await engine.countTokens(replica, request, signal)).toBe(5);
    expect(server.bodies[0]).toMatchObject({ max_tokens: 1 });
    server.plays = [
      fault(400, "The input (900 tokens) is longer than the model's context length (800 tokens)."),
    ];
    expect(await engine.countTokens(replica, request, signal)).toBe(900);
    server.plays = [(_request, response) => json(response, 200, 'no json')];
    expect(await engine.countTokens(replica, request, signal)).toBeNull();
    await replica.close();
  });
});
