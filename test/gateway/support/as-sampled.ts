import type { CallRecord, Sequence } from '../../../src/contracts/index.ts';
import type { SampledCall } from '../../../src/policy/index.ts';

const keyOf = (prompt: ArrayLike<number>, ids: ArrayLike<number>, logprobs: ArrayLike<number>): string =>
  [prompt, ids, logprobs].map((list) => Array.from(list).join()).join('|');

/**
 * What of the trainable sequences the policy's own log does not bear out: a turn whose prompt, ids or logprobs are not those
 * of a sample of its own, a mask that does not stand exactly on the turns, arrays of unequal length.
 */
export function notAsSampled(sequences: readonly Sequence[], log: readonly SampledCall[]): string[] {
  const left = new Map<string, number>();
  for (const { prompt_token_ids, token_ids, logprobs } of log) {
    const key = keyOf(prompt_token_ids, token_ids, logprobs.map(Math.fround));
    left.set(key, (left.get(key) ?? 0) + 1);
  }
  const faults: string[] = [];
  for (const sequence of sequences) {
    const { token_ids: ids, loss_mask: mask, logprobs, turns, certificate } = sequence;
    if (certificate.grade === 'untrainable') continue;
    if (mask.length !== ids.length || logprobs.length !== ids.length) faults.push('arrays of unequal length');
    const sampled = new Uint8Array(ids.length);
    for (const { start, end, call } of turns) {
      sampled.fill(1, start, end);
      const key = keyOf(ids.subarray(0, start), ids.subarray(start, end), logprobs.subarray(start, end));
      const count = left.get(key) ?? 0;
      if (count === 0) faults.push(`call ${call} is no sample of the policy’s, or stands twice`);
      left.set(key, count - 1);
    }
    if (mask.join() !== sampled.join()) faults.push('a mask that is not exactly its turns');
    if (logprobs.some((logprob, at) => mask[at] === 0 && logprob !== 0))
      faults.push('a logprob outside the mask');
  }
  return faults;
}

/** Turns of all sequences, which are those of the delivered calls, each once. */
export function turnsOf(sequences: readonly Sequence[]): number[] {
  return sequences.flatMap(({ turns }) => turns.map(({ call }) => call)).sort((a, b) => a - b);
}

export function deliveredOf(records: readonly CallRecord[]): number[] {
  return records.filter(({ fate }) => fate === 'delivered').map(({ index }) => index);
}
