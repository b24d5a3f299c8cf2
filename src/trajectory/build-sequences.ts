import type { CallRecord, Grade, ResultSummary, Sequence, Turn } from '../contracts/index.ts';
import { bringsImage, missingLogprob } from './call-checks.ts';
import { certify } from './certificate.ts';
import { buildChains, noTokens, promptIds, type Chain } from './chains.ts';
import { isTruncated, observedEndTokens } from './truncation.ts';
import { gradesOf, usageOf } from './usage.ts';

function turnOf(call: CallRecord, ends: ReadonlySet<number>): Turn {
  const start = promptIds(call)?.length ?? 0;
  return {
    start,
    end: start + (call.token_ids?.length ?? 0),
    call: call.index,
    version_start: call.version_start,
    version_end: call.version_end,
    ...(call.version_spans === undefined
      ? {}
      : {
          version_spans: call.version_spans.map((span) => ({
            start: start + span.start,
            end: start + span.end,
            version: span.version,
          })),
        }),
    temperature: call.sampling.temperature,
    finish_reason: call.finish_reason ?? 'unknown',
    truncated: isTruncated(call, ends),
  };
}

/**
 * The call's logprobs at their place. Where the engine gave none, or none that JSON can say, stands the engines' own
 * word for it (-9999): the certificate calls the sequence untrainable, and the arrays stay numbers of equal length.
 */
function putLogprobs(logprobs: Float32Array, turn: Turn, given: Float32Array | null): void {
  for (let at = turn.start; at < turn.end; at += 1) {
    const value = given?.[at - turn.start];
    logprobs[at] = value !== undefined && Number.isFinite(value) ? value : missingLogprob;
  }
}

function toSequence(chain: Chain, ends: ReadonlySet<number>, imageFrom: number): Sequence {
  const last = chain.calls.at(-1)!;
  const prompt = promptIds(last) ?? noTokens;
  const completion = last.token_ids ?? noTokens;
  const length = prompt.length + completion.length;

  // Every earlier call of a chain is a prefix of the last one's prompt: two copies give all tokens.
  const tokenIds = new Int32Array(length);
  tokenIds.set(prompt);
  tokenIds.set(completion, prompt.length);
  const lossMask = new Uint8Array(length);
  const logprobs = new Float32Array(length);
  const turns = chain.calls.map((call) => {
    const turn = turnOf(call, ends);
    lossMask.fill(1, turn.start, turn.end);
    putLogprobs(logprobs, turn, call.logprobs);
    return turn;
  });
  return {
    role: last.role,
    agent_id: last.agent_id,
    token_ids: tokenIds,
    prompt_len: turns.find((turn) => turn.end > turn.start)?.start ?? length,
    loss_mask: lossMask,
    logprobs,
    turns,
    certificate: certify(chain, turns, imageFrom),
  };
}

interface BuiltSequences {
  readonly sequences: Sequence[];
  readonly usage: ResultSummary['usage'];
  readonly grades: Record<Grade, number>;
}

/**
 * Recorded calls as token sequences (their fields: docs/payload.md). Each sampled token of each delivered call
 * stands in exactly one sequence with mask 1; a call of any other fate stands in none. A delivered call without token
 * ids keeps its turn with an empty span; one without prompt ids is a sequence of its own that starts with its
 * completion. Both are untrainable. Order: by first call. Nothing is ever tokenised here.
 */
export function buildSequences(calls: readonly CallRecord[]): BuiltSequences {
  const ends = observedEndTokens(calls);
  const imageFrom = new Map<string, number>();
  for (const call of calls)
    if (bringsImage(call))
      imageFrom.set(call.agent_id, Math.min(call.index, imageFrom.get(call.agent_id) ?? Infinity));
  const sequences = buildChains(calls).map((chain) =>
    toSequence(chain, ends, imageFrom.get(chain.calls[0]!.agent_id) ?? Infinity),
  );
  return { sequences, usage: usageOf(calls), grades: gradesOf(sequences) };
}
