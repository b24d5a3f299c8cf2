import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  certificateNoteSchema,
  untrainableReasonSchema,
  type CallRecord,
  type UntrainableReason,
} from '../../src/contracts/index.ts';
import { buildSequences } from '../../src/trajectory/index.ts';
import { soundLogprobs } from './call-records.ts';
import { soundHistories } from './histories.ts';

/** More: `ROLLPOOL_PROPERTY_RUNS=20000`. */
const numRuns = Math.max(2_000, Number(process.env['ROLLPOOL_PROPERTY_RUNS'] ?? 0));

type Change = (record: CallRecord) => Partial<CallRecord>;
type Kind = readonly [reason: UntrainableReason | null, change: Change];

/** What may be wrong with each part of a call; parts go wrong at once and apart from one another. */
const parts = {
  ids: [
    [null, () => ({})],
    ['ids_missing', () => ({ token_ids: null })],
    ['ids_missing', ({ token_ids: ids }) => ({ token_ids: ids!.map((id, at) => (at === 0 ? -1 : id)) })],
    ['prompt_ids_missing', () => ({ prompt_token_ids: null })],
    ['prompt_ids_missing', () => ({ prompt_token_ids: new Int32Array(0) })],
  ],
  logprobs: [
    [null, () => ({})],
    ['bad_logprob', () => ({ logprobs: null })],
    ...[NaN, 0.5, -9999, -Infinity, Infinity].map((bad): Kind => [
      'bad_logprob',
      ({ logprobs }) => ({ logprobs: logprobs!.map((each, at) => (at === 0 ? bad : each)) }),
    ]),
    ['length_mismatch', ({ token_ids: ids }) => ({ logprobs: soundLogprobs(ids!.length + 1) })],
  ],
  finish: [
    [null, () => ({})],
    [null, () => ({ finish_reason: 'length' })],
    ...['abort', 'error', null].map((finish): Kind => ['aborted', () => ({ finish_reason: finish })]),
  ],
  usage: [
    [null, () => ({})],
    ['usage_mismatch', () => ({ usage: null })],
    [
      'usage_mismatch',
      ({ usage }) => ({ usage: { prompt_tokens: usage!.prompt_tokens + 1, completion_tokens: 1_000 } }),
    ],
  ],
  temperature: [
    [null, () => ({})],
    [null, ({ sampling }) => ({ sampling: { ...sampling, temperature: 0.5 } })],
    ['greedy', ({ sampling }) => ({ sampling: { ...sampling, temperature: 0 } })],
    [
      'raw_logprobs_with_temperature',
      ({ sampling }) => ({ sampling: { ...sampling, temperature: 1.5 }, logprobs_mode: 'raw' }),
    ],
  ],
  support: [
    [null, () => ({})],
    ...[
      { top_p: 0.9 },
      { top_k: 5 },
      { min_p: 0.1 },
      { repetition_penalty: 1.1 },
      { presence_penalty: -1 },
    ].map((given): Kind => [
      'truncated_support',
      ({ sampling }) => ({ sampling: { ...sampling, ...given } }),
    ]),
  ],
  mark: [
    [null, () => ({})],
    ['undelivered', () => ({ reasons: ['undelivered'] })],
    ['multimodal_inputs_absent', () => ({ reasons: ['multimodal_inputs_absent'] })],
  ],
} satisfies Record<string, readonly Kind[]>;

/** Sound more often than not. */
const kindOf = (kinds: readonly Kind[]): fc.Arbitrary<Kind> =>
  fc.oneof(
    { arbitrary: fc.constant(kinds[0]!), weight: 6 },
    { arbitrary: fc.constantFrom(...kinds), weight: 1 },
  );

const spoilt = fc.tuple(...Object.values(parts).map((kinds) => kindOf(kinds)));

interface Case {
  readonly calls: CallRecord[];
  readonly reasons: readonly ReadonlySet<UntrainableReason>[];
}

/** Histories whose calls have any number of faults at once, with the reasons that those have to give. */
const cases: fc.Arbitrary<Case> = soundHistories.chain(({ calls }) =>
  fc.array(spoilt, { minLength: calls.length, maxLength: calls.length }).map((changes) => {
    const reasons = changes.map((kinds) => new Set(kinds.flatMap(([reason]) => reason ?? [])));
    const spoiltCalls = calls.map((sound, at) =>
      changes[at]!.reduce(
        (record, [, change]) => ({ ...record, ...change({ ...record, ...soundParts(sound) }) }),
        sound,
      ),
    );
    // Without ids nothing can be said of how many logprobs there should be.
    spoiltCalls.forEach(({ token_ids: ids }, at) => {
      if (ids === null) reasons[at]!.delete('length_mismatch');
    });
    return { calls: spoiltCalls, reasons };
  }),
);

/** What changes look at: the parts as they were, whatever another change made of them. */
const soundParts = ({ token_ids, logprobs, usage }: CallRecord): Partial<CallRecord> => ({
  token_ids,
  logprobs,
  usage,
});

describe('for any faults at once,', () => {
  it('a certificate lists every reason of its calls, once, in the order of the closed list', () => {
    fc.assert(
      fc.property(cases, ({ calls, reasons }) => {
        for (const { turns, certificate, token_ids: ids, loss_mask: mask, logprobs } of buildSequences(calls)
          .sequences) {
          const expected = new Set(turns.flatMap(({ call }) => [...reasons[call]!]));
          const sound = logprobs.every((each, at) => Number.isFinite(each) && (mask[at] === 1 || each === 0));
          // One `expect` each: they cost more than what they look at.
          expect([certificate, mask.length, logprobs.length, sound]).toEqual([
            {
              grade: expected.size > 0 ? 'untrainable' : certificate.grade === 'exact' ? 'exact' : 'forked',
              reasons: untrainableReasonSchema.options.filter((each) => expected.has(each)),
              notes: certificateNoteSchema.options.filter((each) => certificate.notes.includes(each)),
            },
            ids.length,
            ids.length,
            true,
          ]);
        }
      }),
      { numRuns },
    );
  });

  it('what is trainable is what was given, to the bit', () => {
    fc.assert(
      fc.property(cases, ({ calls }) => {
        const { sequences, usage } = buildSequences(calls);
        let masked = 0;
        for (const { turns, certificate, token_ids: ids, loss_mask: mask, logprobs } of sequences) {
          masked += mask.reduce((sum, bit) => sum + bit, 0);
          if (certificate.grade === 'untrainable') continue;
          for (const { call, start, end } of turns) {
            const record = calls[call]!;
            const given = [record.prompt_token_ids!, record.token_ids!, record.logprobs!];
            const shown = [ids.subarray(0, start), ids.subarray(start, end), logprobs.subarray(start, end)];
            expect([record.fate, ...shown.map((each) => each.join())]).toEqual([
              'delivered',
              ...given.map((each) => each.join()),
            ]);
          }
        }
        expect(usage.completion_tokens).toBe(masked + usage.discarded_tokens);
      }),
      { numRuns },
    );
  });
});
