import type { CallRecord } from '../contracts/index.ts';

/**
 * Last tokens of answers that ended by themselves: the end tokens this policy was seen to sample. They tell an answer
 * that ended at its very limit from one that was cut there, for engines that relabel a cut answer with a tool call in
 * it as `tool_calls` (facts: token capture 1.2).
 */
export function observedEndTokens(calls: readonly CallRecord[]): ReadonlySet<number> {
  const ends = new Set<number>();
  for (const { token_ids: ids, finish_reason: finish, max_tokens: limit } of calls) {
    const last = ids?.at(-1);
    if (last === undefined || ids === null) continue;
    if (finish === 'stop' || (finish === 'tool_calls' && ids.length < limit)) ends.add(last);
  }
  return ends;
}

/** Finish "length", an engine's own early stop, or as many tokens as allowed without an end token. */
export function isTruncated(call: CallRecord, ends: ReadonlySet<number>): boolean {
  if (call.finish_reason === 'length' || call.finish_reason === 'repetition') return true;
  if (call.finish_reason === 'stop') return false;
  const last = call.token_ids?.at(-1);
  return last !== undefined && call.token_ids!.length >= call.max_tokens && !ends.has(last);
}
