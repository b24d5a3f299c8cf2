import type { CallRecord, Grade, ResultSummary, Sequence } from '../contracts/index.ts';

/** What the engine listed, else what it counted; null when it did neither. An empty list lists nothing. */
function count(listed: Int32Array | null, counted: number | undefined): number | null {
  return listed !== null && listed.length > 0 ? listed.length : (counted ?? null);
}

/** Tokens of a call's prompt; null when the engine said nothing of them. */
export function promptTokens(call: CallRecord): number | null {
  return count(call.prompt_token_ids, call.usage?.prompt_tokens);
}

/** Tokens a call sampled; null when the engine said nothing of them. */
export function completionTokens(call: CallRecord): number | null {
  return count(call.token_ids, call.usage?.completion_tokens);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/**
 * What the episode cost the policy, calls of every fate included. `completion_tokens` is always the sampled tokens of
 * all sequences plus `discarded_tokens`; tokens that an engine counted and did not list are discarded as well.
 */
export function usageOf(calls: readonly CallRecord[]): ResultSummary['usage'] {
  const inSequence = (call: CallRecord): boolean =>
    call.fate === 'delivered' && call.token_ids !== null && call.token_ids.length > 0;
  return {
    calls: calls.length,
    prompt_tokens: sum(calls.map((call) => promptTokens(call) ?? 0)),
    completion_tokens: sum(calls.map((call) => completionTokens(call) ?? 0)),
    discarded_tokens: sum(calls.map((call) => (inSequence(call) ? 0 : (completionTokens(call) ?? 0)))),
  };
}

/** Counts of sequences by grade. */
export function gradesOf(sequences: readonly Sequence[]): Record<Grade, number> {
  const grades = { exact: 0, forked: 0, untrainable: 0 };
  for (const { certificate } of sequences) grades[certificate.grade] += 1;
  return grades;
}
