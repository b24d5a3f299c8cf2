import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeTokens } from '../../src/policy/index.ts';
import { ask, policyWith, post, stream, tools, turns, type Reply } from './support.ts';

const captured = { logprobs: true, top_logprobs: 0, return_token_ids: true };
const request = { messages: ask, tools, ...captured };

describe('an answer given whole', () => {
  it('has ids, logprobs and usage that agree, the end token included', async () => {
    await using policy = await policyWith(turns);
    const { body } = await post(policy, request);
    const [choice] = body.choices;
    expect(choice.finish_reason).toBe('tool_calls');
    expect(choice.message).toMatchObject({
      role: 'assistant',
      content: 'Let me see.',
      reasoning: 'Look first.',
    });
    expect(choice.message.tool_calls.map((call: Reply['body']) => call.function)).toEqual([
      { name: 'Bash', arguments: '{"command": "ls"}' },
      { name: 'Bash', arguments: '{"command":"pwd"' },
    ]);
    expect(new Set(choice.message.tool_calls.map((call: Reply['body']) => call.id)).size).toBe(2);
    expect(choice.token_ids).toHaveLength(body.usage.completion_tokens);
    expect(choice.logprobs.content).toHaveLength(body.usage.completion_tokens);
    expect(body.prompt_token_ids).toHaveLength(body.usage.prompt_tokens);
    expect(decodeTokens(choice.token_ids.slice(-1))).toBe('<|im_end|>');
    expect(decodeTokens(body.prompt_token_ids)).toMatch(
      /<\|im_start\|>user\nTask A<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
    for (const entry of choice.logprobs.content) {
      expect(entry.logprob).toBeLessThanOrEqual(0);
      expect(entry.logprob).toBe(Math.fround(entry.logprob));
      expect(entry.top_logprobs).toEqual([]);
    }
  });

  it('leaves out, as null, what was not asked for', async () => {
    await using policy = await policyWith(turns);
    const { body } = await post(policy, { messages: ask });
    expect(body).toMatchObject({ prompt_token_ids: null, choices: [{ token_ids: null, logprobs: null }] });
    // Without tools the markup of a call is text.
    expect(body.choices[0].message.tool_calls).toEqual([]);
    expect(body.choices[0].message.content).toContain('<tool_call>Bash\n{"command": "ls"}</tool_call>');
    expect(body.choices[0].finish_reason).toBe('stop');
  });

  it('names tokens by id and lists the sampled token first among the top ones when asked to', async () => {
    await using policy = await policyWith(turns, { splitRate: 0.2 });
    const { body } = await post(policy, { ...request, top_logprobs: 3, return_tokens_as_token_ids: true });
    const [choice] = body.choices;
    choice.logprobs.content.forEach((entry: Reply['body'], at: number) => {
      expect(entry.token).toBe(`token_id:${choice.token_ids[at]}`);
      expect(entry.top_logprobs[0]).toMatchObject({ token: entry.token, logprob: entry.logprob });
      expect(entry.top_logprobs.length).toBeLessThanOrEqual(3);
    });
  });

  it('hides ids and logprobs together with the reasoning', async () => {
    await using policy = await policyWith(turns);
    const { body } = await post(policy, { ...request, include_reasoning: false });
    expect(body.choices[0]).toMatchObject({ token_ids: null, logprobs: null, message: { reasoning: null } });
  });

  it('drops calls after the first without parallel calls, and keeps their tokens', async () => {
    await using policy = await policyWith(turns);
    const { body } = await post(policy, { ...request, parallel_tool_calls: false });
    expect(body.choices[0].message.tool_calls).toHaveLength(1);
    expect(decodeTokens(body.choices[0].token_ids)).toContain('pwd');
  });

  it('ends at its token limit with length, and gives an unfinished call as text', async () => {
    await using policy = await policyWith(turns, { splitRate: 0 });
    const whole = await post(policy, request);
    const before = decodeTokens(whole.body.choices[0].token_ids.slice(0, 14));
    expect(before).toContain('<tool_call>Bash');
    const { body } = await post(policy, { ...request, max_tokens: 14 });
    expect(body.choices[0]).toMatchObject({ finish_reason: 'length', message: { tool_calls: [] } });
    expect(body.choices[0].message.content).toContain('<tool_call>Bash');
    expect(body.usage.completion_tokens).toBe(14);
  });

  it('cuts its text at a stop string and keeps the tokens', async () => {
    await using policy = await policyWith([{ text: 'alpha beta gamma' }]);
    const { body } = await post(policy, { ...request, stop: [' gam', 'eta'] });
    expect(body.choices[0]).toMatchObject({ stop_reason: 'eta', finish_reason: 'stop' });
    expect(body.choices[0].message.content).toBe('alpha b');
    expect(decodeTokens(body.choices[0].token_ids)).toContain('alpha beta');
    const kept = await post(policy, { ...request, stop: 'eta', include_stop_str_in_output: true });
    expect(kept.body.choices[0].message.content).toBe('alpha beta');
  });

  it('keeps the whole conversation one chain of ids under the plain template', async () => {
    await using policy = await policyWith(turns, { splitRate: 0.3 });
    const first = (await post(policy, request)).body;
    const { message } = first.choices[0];
    const results = message.tool_calls.map((call: Reply['body']) => ({
      role: 'tool',
      tool_call_id: call.id,
      content: 'ok',
    }));
    const second = (await post(policy, { ...request, messages: [...ask, message, ...results] })).body;
    const chain = [...first.prompt_token_ids, ...first.choices[0].token_ids];
    expect(second.prompt_token_ids.slice(0, chain.length)).toEqual(chain);
    expect(second.choices[0].message.content).toBe('Everything is done.');
  });
});

describe('a streamed answer', () => {
  it('says the same as one given whole, token by token', async () => {
    await using policy = await policyWith(turns);
    const body = { ...request, seed: 3 };
    const whole = (await post(policy, body)).body;
    const { chunks, done } = await stream(policy, { ...body, stream_options: { include_usage: true } });
    expect(done).toBe(true);
    const [first, ...rest] = chunks;
    expect(first.prompt_token_ids).toEqual(whole.prompt_token_ids);
    expect(first.choices[0]).toEqual({
      index: 0,
      delta: { role: 'assistant', content: '' },
      logprobs: null,
      finish_reason: null,
    });
    const usage = rest.pop();
    expect(usage).toMatchObject({ choices: [], usage: { completion_tokens: whole.usage.completion_tokens } });
    const steps = rest.map((chunk) => chunk.choices[0]);
    expect(steps.flatMap((step) => step.token_ids)).toEqual(whole.choices[0].token_ids);
    expect(steps.flatMap((step) => step.logprobs.content)).toEqual(whole.choices[0].logprobs.content);
    const text = (field: string): string => steps.map((step) => step.delta[field] ?? '').join('');
    expect(text('content')).toBe('Let me see.');
    expect(text('reasoning')).toBe('Look first.');
    const calls = steps.flatMap((step) => step.delta.tool_calls ?? []);
    const opened = calls.filter((call) => call.id !== undefined);
    expect(opened.map((call) => [call.index, call.type, call.function.name])).toEqual([
      [0, 'function', 'Bash'],
      [1, 'function', 'Bash'],
    ]);
    const argumentsOf = (index: number): string =>
      calls
        .filter((call) => call.index === index)
        .map((call) => call.function.arguments)
        .join('');
    expect([argumentsOf(0), argumentsOf(1)]).toEqual(['{"command": "ls"}', '{"command":"pwd"']);
    expect(steps.at(-1).finish_reason).toBe('tool_calls');
    expect(steps.filter((step) => step.finish_reason !== null)).toHaveLength(1);
  });

  it('leaves out what was not asked for, and holds back half characters', async () => {
    await using policy = await policyWith([{ text: 'é😀' }]);
    const { chunks } = await stream(policy, { messages: ask });
    expect(chunks.every((chunk) => !('prompt_token_ids' in chunk) && !('usage' in chunk))).toBe(true);
    expect(chunks.every((chunk) => !('token_ids' in chunk.choices[0]))).toBe(true);
    const parts = chunks.map((chunk) => chunk.choices[0].delta.content ?? '');
    expect(parts.join('')).toBe('é😀');
    expect(chunks.length).toBeGreaterThan(7);
  });

  it('labels a tool call the limit cut with length', async () => {
    await using policy = await policyWith(turns, { splitRate: 0 });
    const { chunks } = await stream(policy, { ...request, max_tokens: 14 });
    expect(chunks.at(-1).choices[0].finish_reason).toBe('length');
    expect(JSON.stringify(chunks)).toContain('"name":"Bash"');
  });
});

describe('sampling', () => {
  const branches = [
    {
      branches: [
        { p: 0.6, turns: [{ text: 'Yes, surely.' }] },
        { p: 0.4, turns: [{ text: 'No, never.' }] },
      ],
    },
  ];

  it('takes branches as often as they are likely, and says so in their first token', async () => {
    await using policy = await policyWith(branches, { splitRate: 0 });
    const { body } = await post(policy, { ...request, n: 64, temperature: 1 });
    const first = new Map<string, number>();
    for (const { logprobs } of body.choices) {
      const [entry] = logprobs.content;
      first.set(entry.token, (first.get(entry.token) ?? 0) + 1);
      expect(Math.exp(entry.logprob)).toBeCloseTo(entry.token.startsWith('Y') ? 0.6 : 0.4, 5);
    }
    expect(first.size).toBe(2);
  });

  it('gives the same sample for the same seed, and others for others', async () => {
    await using policy = await policyWith(branches, { splitRate: 0.3 });
    const ids = async (seed: number): Promise<string> =>
      (await post(policy, { ...request, seed })).body.choices[0].token_ids.join();
    expect(await ids(7)).toBe(await ids(7));
    const several = await Promise.all(Array.from({ length: 12 }, (_unused, seed) => ids(seed)));
    expect(new Set(several).size).toBeGreaterThan(2);
  });

  it('without a seed repeats itself from one server seed to the next start, whatever else was asked', async () => {
    const group = async (others: number): Promise<string[]> => {
      await using policy = await policyWith(branches, { seed: 11 });
      for (let other = 0; other < others; other += 1) {
        await post(policy, { messages: [{ role: 'user', content: 'hi' }] });
      }
      const said: string[] = [];
      for (let at = 0; at < 6; at += 1)
        said.push((await post(policy, request)).body.choices[0].message.content);
      return said;
    };
    expect(await group(0)).toEqual(await group(3));
  });

  it.each([
    ['processed', false],
    ['raw', true],
  ] as const)(
    'shows in mode %s by two temperatures which logprobs it reports',
    async (logprobsMode, same) => {
      await using policy = await policyWith(turns, { logprobsMode });
      const first = async (temperature: number) => {
        const { body } = await post(policy, {
          messages: [{ role: 'user', content: 'hi' }],
          ...captured,
          temperature,
          max_tokens: 1,
          seed: 2,
        });
        return body.choices[0].logprobs.content[0];
      };
      const [one, two] = [await first(1), await first(1.9)];
      expect(one.token).toBe(two.token);
      expect(one.logprob === two.logprob).toBe(same);
    },
  );

  it('writes down every call as it reported it', async () => {
    const directory = await mkdtemp(join(tmpdir(), `rollpool-policy-${process.pid}-`));
    try {
      const samplesLog = join(directory, 'samples.jsonl');
      await using policy = await policyWith(branches, { samplesLog });
      const { body } = await post(policy, request);
      const lines = (await readFile(samplesLog, 'utf8')).trim().split('\n');
      expect(lines.map((line) => JSON.parse(line))).toEqual(policy.samples());
      expect(policy.samples()).toMatchObject([
        {
          id: body.id,
          script: 'Task A',
          turn: 0,
          branch: body.choices[0].message.content.startsWith('Yes') ? '/0' : '/1',
          prompt_token_ids: body.prompt_token_ids,
          token_ids: body.choices[0].token_ids,
          logprobs: body.choices[0].logprobs.content.map((entry: Reply['body']) => entry.logprob),
          finish_reason: 'stop',
        },
      ]);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
