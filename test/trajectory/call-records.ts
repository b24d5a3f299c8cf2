import { samplingSchema, type CallRecord, type Sampling } from '../../src/contracts/index.ts';

type Overrides = Partial<Omit<CallRecord, 'sampling'>> & { sampling?: Partial<Sampling> };

export const ids = (...values: number[]): Int32Array => Int32Array.from(values);

/** Logprobs that differ by token and are exact float32 values. */
export function soundLogprobs(count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, index) => -0.25 - (index % 64) / 128);
}

/** A delivered call on which every check holds, unless overridden. */
export function call(
  index: number,
  prompt: ArrayLike<number>,
  completion: ArrayLike<number>,
  { sampling, ...overrides }: Overrides = {},
): CallRecord {
  return {
    index,
    agent_id: 'main',
    role: 'main',
    fate: 'delivered',
    prompt_token_ids: Int32Array.from(prompt),
    token_ids: Int32Array.from(completion),
    logprobs: soundLogprobs(completion.length),
    usage: { prompt_tokens: prompt.length, completion_tokens: completion.length },
    finish_reason: 'tool_calls',
    sampling: { ...samplingSchema.parse({}), ...sampling },
    max_tokens: 4096,
    logprobs_mode: 'processed',
    version_start: 3,
    version_end: 3,
    replica: 'http://policy-0',
    reasons: [],
    notes: [],
    new_messages: [{ role: 'user', content: `message ${index}` }],
    answer: { role: 'assistant', content: `answer ${index}` },
    started_at: 1_800_000_000_000 + index * 1000,
    ended_at: 1_800_000_000_500 + index * 1000,
    held_ms: 0,
    ...overrides,
  };
}
