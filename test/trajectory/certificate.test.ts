import { describe, expect, it } from 'vitest';
import type { CallRecord, CertificateNote, Sampling, UntrainableReason } from '../../src/contracts/index.ts';
import { buildSequences } from '../../src/trajectory/index.ts';
import { call } from './call-records.ts';

type Fault = Partial<Omit<CallRecord, 'sampling'>> & { sampling?: Partial<Sampling> };

/** The certificate of a two-turn chain whose second call has the fault. */
function certificateWith(fault: Fault) {
  const { sequences } = buildSequences([
    call(0, [1, 2], [10, 11]),
    call(1, [1, 2, 10, 11, 3], [12, 13], fault),
  ]);
  expect(sequences).toHaveLength(1);
  return sequences[0]!.certificate;
}

const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } } as const;

describe('a sequence is untrainable when a call of it', () => {
  it.each<[string, Fault, UntrainableReason[]]>([
    ['has no token ids', { token_ids: null }, ['ids_missing']],
    [
      'has an empty list of token ids',
      { token_ids: new Int32Array(0), logprobs: new Float32Array(0) },
      ['ids_missing', 'usage_mismatch'],
    ],
    ['has a negative token id', { token_ids: Int32Array.of(12, -1) }, ['ids_missing']],
    ['has fewer logprobs than ids', { logprobs: Float32Array.of(-1) }, ['length_mismatch']],
    ['has more logprobs than ids', { logprobs: Float32Array.of(-1, -1, -1) }, ['length_mismatch']],
    ['has no logprobs', { logprobs: null }, ['bad_logprob']],
    ['has a logprob that is not a number', { logprobs: Float32Array.of(-1, NaN) }, ['bad_logprob']],
    ['has an infinite logprob', { logprobs: Float32Array.of(-1, -Infinity) }, ['bad_logprob']],
    ['has a positive logprob', { logprobs: Float32Array.of(0.001, -1) }, ['bad_logprob']],
    ['has a logprob of -9999', { logprobs: Float32Array.of(-9999, -1) }, ['bad_logprob']],
    ['has no usage', { usage: null }, ['usage_mismatch']],
    [
      'counts other completion tokens than it lists',
      { usage: { prompt_tokens: 5, completion_tokens: 3 } },
      ['usage_mismatch'],
    ],
    [
      'counts other prompt tokens than it lists',
      { usage: { prompt_tokens: 6, completion_tokens: 2 } },
      ['usage_mismatch'],
    ],
    ['was aborted by the engine', { finish_reason: 'abort' }, ['aborted']],
    ['does not say how it ended', { finish_reason: null }, ['aborted']],
    ['was sampled greedily', { sampling: { temperature: 0 } }, ['greedy']],
    [
      'has raw logprobs at a temperature other than 1',
      { sampling: { temperature: 0.7 }, logprobs_mode: 'raw' },
      ['raw_logprobs_with_temperature'],
    ],
    [
      'has logprobs of an unknown mode at a temperature other than 1',
      { sampling: { temperature: 0.7 }, logprobs_mode: 'unknown' },
      ['raw_logprobs_with_temperature'],
    ],
    ['was sampled with top_p', { sampling: { top_p: 0.9 } }, ['truncated_support']],
    ['was sampled with top_k', { sampling: { top_k: 20 } }, ['truncated_support']],
    ['was sampled with min_p', { sampling: { min_p: 0.1 } }, ['truncated_support']],
    ['was sampled with a presence penalty', { sampling: { presence_penalty: 1 } }, ['truncated_support']],
    ['was sampled with a frequency penalty', { sampling: { frequency_penalty: -1 } }, ['truncated_support']],
    [
      'was sampled with a repetition penalty',
      { sampling: { repetition_penalty: 1.1 } },
      ['truncated_support'],
    ],
    [
      'brought an image',
      { new_messages: [{ role: 'user', content: [image] }] },
      ['multimodal_inputs_absent'],
    ],
    ['was marked by the gateway', { reasons: ['undelivered'] }, ['undelivered']],
    [
      'fails several checks',
      { logprobs: Float32Array.of(1), sampling: { top_k: 3, temperature: 0 }, reasons: ['aborted'] },
      ['length_mismatch', 'bad_logprob', 'aborted', 'greedy', 'truncated_support'],
    ],
  ])('%s', (_what, fault, reasons) => {
    expect(certificateWith(fault)).toMatchObject({ grade: 'untrainable', reasons });
  });

  it('stands in it after the call that brought an image, in whatever chain', () => {
    const { sequences } = buildSequences([
      call(0, [1], [10]),
      call(1, [2], [20], { fate: 'failed', new_messages: [{ role: 'user', content: [image] }] }),
      call(2, [3], [30]),
      call(3, [4], [40], { agent_id: 'other', role: 'subagent' }),
    ]);
    expect(sequences.map(({ certificate }) => certificate.reasons)).toEqual([
      [],
      ['multimodal_inputs_absent'],
      [],
    ]);
  });
});

describe('logprobs of an untrainable sequence', () => {
  it('stay numbers of equal length: -9999 where there is none', () => {
    const of = (logprobs: Float32Array | null): number[] =>
      Array.from(buildSequences([call(0, [1], [2, 3], { logprobs })]).sequences[0]!.logprobs);
    expect(of(null)).toEqual([0, -9999, -9999]);
    expect(of(Float32Array.of(-1))).toEqual([0, -1, -9999]);
    expect(of(Float32Array.of(NaN, -2, -3))).toEqual([0, -9999, -2]);
    expect(of(Float32Array.of(0.5, -Infinity))).toEqual([0, 0.5, -9999]);
  });
});

describe('what is sound stays trainable:', () => {
  it.each<[string, Fault]>([
    ['temperature other than 1 with processed logprobs', { sampling: { temperature: 0.7 } }],
    ['raw logprobs at temperature 1', { logprobs_mode: 'raw' }],
    ['top_k 0 and -1', { sampling: { top_k: 0 } }],
    ['logprob 0', { logprobs: Float32Array.of(0, -1) }],
    ['a text of parts', { new_messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }],
  ])('%s', (_what, fault) => {
    expect(certificateWith(fault)).toMatchObject({ grade: 'exact', reasons: [] });
  });

  it('a branch that holds a faulty call only as its prompt', () => {
    const { sequences } = buildSequences([
      call(0, [1], [10], { logprobs: null }),
      call(1, [1, 10, 2], [11]),
      call(2, [1, 10, 3], [12]),
    ]);
    expect(sequences.map(({ certificate }) => certificate.grade)).toEqual(['untrainable', 'forked']);
    expect([...sequences[1]!.loss_mask]).toEqual([0, 0, 0, 1]);
  });
});

describe('notes', () => {
  it.each<[string, Fault, CertificateNote[]]>([
    ['a version that moved between turns', { version_start: 4, version_end: 4 }, ['mixed_version']],
    ['a version that moved inside a turn', { version_end: 4 }, ['mixed_version']],
    [
      'versions that the engine tells apart inside a turn',
      {
        version_spans: [
          { start: 0, end: 1, version: 'a' },
          { start: 1, end: 2, version: 'b' },
        ],
      },
      ['mixed_version'],
    ],
    ['a version known of some turns only', { version_start: null, version_end: null }, ['version_uncertain']],
    ['another replica', { replica: 'http://policy-1' }, ['replica_moved']],
    ['an answer that ended at its length', { finish_reason: 'length' }, ['truncated_turn']],
    [
      'an answer the engine stopped for repeating itself',
      { finish_reason: 'repetition' },
      ['truncated_turn'],
    ],
    [
      'what the gateway saw',
      { notes: ['foreign_client', 'guided_decoding'] },
      ['guided_decoding', 'foreign_client'],
    ],
  ])('tell of %s and leave the grade', (_what, fault, notes) => {
    expect(certificateWith(fault)).toEqual({ grade: 'exact', reasons: [], notes });
  });

  it('say nothing of a policy that has no version at all', () => {
    const versionless = { version_start: null, version_end: null };
    expect(buildSequences([call(0, [1], [2], versionless)]).sequences[0]!.certificate.notes).toEqual([]);
  });
});

describe('a turn is truncated', () => {
  const truncated = (...calls: CallRecord[]): boolean[] =>
    buildSequences(calls).sequences.flatMap(({ turns }) => turns.map((turn) => turn.truncated));

  it('when it has as many tokens as allowed and no end token, whatever the engine calls it', () => {
    expect(truncated(call(0, [1], [2, 3], { finish_reason: 'tool_calls', max_tokens: 2 }))).toEqual([true]);
  });

  it('but not when its last token is the one that other answers end with', () => {
    expect(
      truncated(
        call(0, [1], [2, 99], { finish_reason: 'stop' }),
        call(1, [1, 2, 99, 3], [4, 99], { finish_reason: 'tool_calls', max_tokens: 2 }),
        call(2, [1, 2, 99, 3, 4, 99], [5, 6], { finish_reason: 'tool_calls', max_tokens: 2 }),
      ),
    ).toEqual([false, false, true]);
  });

  it('but not when the engine says that it stopped by itself', () => {
    expect(truncated(call(0, [1], [2, 3], { finish_reason: 'stop', max_tokens: 2 }))).toEqual([false]);
  });
});
