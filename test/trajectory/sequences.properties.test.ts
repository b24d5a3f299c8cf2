import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CallRecord, Sequence } from '../../src/contracts/index.ts';
import { buildSequences } from '../../src/trajectory/index.ts';
import { appendOnly, histories } from './histories.ts';

/** More: `ROLLPOOL_PROPERTY_RUNS=20000`. */
const runs = { numRuns: Math.max(600, Number(process.env['ROLLPOOL_PROPERTY_RUNS'] ?? 0)) };
const length = (tokens: ArrayLike<number> | null): number => tokens?.length ?? 0;

/** The longest delivered prompt + completion of the same agent and role before this call, by plain comparison. */
function expectedParent(call: CallRecord, calls: readonly CallRecord[]): number | undefined {
  const prompt = call.prompt_token_ids!.join();
  let best: { index: number; length: number } | undefined;
  for (const other of calls.slice(0, call.index)) {
    if (other.fate !== 'delivered' || other.agent_id !== call.agent_id || other.role !== call.role) continue;
    if (!other.prompt_token_ids?.length) continue;
    const full = [...other.prompt_token_ids, ...(other.token_ids ?? [])];
    if (`${prompt},`.startsWith(`${full.join()},`) && full.length >= (best?.length ?? 0))
      best = { index: other.index, length: full.length };
  }
  return best?.index;
}

function checkArrays(sequence: Sequence): void {
  const { token_ids: ids, loss_mask: mask, logprobs, turns } = sequence;
  expect([mask.length, logprobs.length]).toEqual([ids.length, ids.length]);
  const sampled = new Uint8Array(ids.length);
  for (const turn of turns) sampled.fill(1, turn.start, turn.end);
  const bounds = turns.flatMap(({ start, end }) => [start, end]);
  expect(bounds).toEqual(bounds.toSorted((a, b) => a - b));
  expect(bounds.at(-1)).toBe(ids.length);
  expect(mask.join()).toBe(sampled.join());
  expect(sequence.prompt_len).toBe(mask.indexOf(1) === -1 ? ids.length : mask.indexOf(1));
  expect(logprobs.every((logprob, at) => Number.isFinite(logprob) && (mask[at] === 1 || logprob === 0))).toBe(
    true,
  );
}

describe('for any history of calls,', () => {
  it('every sampled token of every delivered call stands once, as the engine gave it', () => {
    fc.assert(
      fc.property(histories, ({ calls }) => {
        const { sequences, usage } = buildSequences(calls);
        const seen: number[] = [];
        for (const sequence of sequences) {
          checkArrays(sequence);
          for (const { call, start, end } of sequence.turns) {
            seen.push(call);
            const record = calls[call]!;
            const { role, agent_id, token_ids: ids, logprobs, certificate } = sequence;
            // Compared as text: an `expect` of typed arrays costs a hundred times as much.
            expect([role, agent_id, ids.subarray(0, start).join(), ids.subarray(start, end).join()]).toEqual([
              record.role,
              record.agent_id,
              (record.prompt_token_ids ?? []).join(),
              (record.token_ids ?? []).join(),
            ]);
            if (certificate.grade !== 'untrainable')
              expect(logprobs.subarray(start, end).join()).toBe(record.logprobs!.join());
          }
        }
        const delivered = calls.filter((call) => call.fate === 'delivered').map((call) => call.index);
        expect(seen.toSorted((a, b) => a - b)).toEqual(delivered);
        const sampled = sequences.flatMap(({ loss_mask }) => [...loss_mask]).filter((mask) => mask === 1);
        expect(usage.completion_tokens).toBe(sampled.length + usage.discarded_tokens);
      }),
      runs,
    );
  });

  it('nothing faulty and nothing undelivered is trainable, and what is sound is', () => {
    fc.assert(
      fc.property(histories, ({ calls, faulty }) => {
        for (const { turns, certificate } of buildSequences(calls).sequences) {
          const bad = turns.some((turn) => faulty.has(turn.call));
          expect(certificate.grade === 'untrainable').toBe(bad);
          expect(certificate.reasons.length > 0).toBe(bad);
        }
      }),
      runs,
    );
  });

  it('a call follows the longest record that its prompt extends, the latest of equals', () => {
    fc.assert(
      fc.property(histories, ({ calls }) => {
        const continued = new Set<number>();
        const { sequences } = buildSequences(calls);
        const before = new Map<number, number | undefined>();
        for (const { turns } of sequences)
          turns.forEach((turn, at) => before.set(turn.call, turns[at - 1]?.call));
        for (const [index, previous] of [...before].sort(([a], [b]) => a - b)) {
          if (!calls[index]!.prompt_token_ids?.length) continue;
          const parent = expectedParent(calls[index]!, calls);
          expect(previous).toBe(parent === undefined || continued.has(parent) ? undefined : parent);
          if (parent !== undefined) continued.add(parent);
        }
      }),
      runs,
    );
  });

  it('exact means one chain of its agent, forked means several', () => {
    fc.assert(
      fc.property(histories, ({ calls }) => {
        const { sequences, grades } = buildSequences(calls);
        for (const { role, agent_id, certificate } of sequences) {
          const chains = sequences.filter(
            (other) => other.role === role && other.agent_id === agent_id,
          ).length;
          if (certificate.grade !== 'untrainable')
            expect(certificate.grade).toBe(chains === 1 ? 'exact' : 'forked');
        }
        expect(grades.exact + grades.forked + grades.untrainable).toBe(sequences.length);
      }),
      runs,
    );
  });

  it('the order in which the records are handed over does not matter', () => {
    fc.assert(
      fc.property(
        histories.chain(({ calls }) =>
          fc.tuple(fc.constant(calls), fc.shuffledSubarray(calls, { minLength: calls.length })),
        ),
        ([calls, shuffled]) => {
          expect(buildSequences(shuffled)).toEqual(buildSequences(calls));
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('any chain of calls that only append', () => {
  it('is one exact sequence that ends with the last answer', () => {
    fc.assert(
      fc.property(appendOnly, (calls) => {
        const { sequences } = buildSequences(calls);
        expect(sequences).toHaveLength(1);
        expect(sequences[0]!.certificate.grade).toBe('exact');
        expect(sequences[0]!.turns).toHaveLength(calls.length);
        const last = calls.at(-1)!;
        expect(sequences[0]!.token_ids).toHaveLength(length(last.prompt_token_ids) + length(last.token_ids));
      }),
      runs,
    );
  });
});
