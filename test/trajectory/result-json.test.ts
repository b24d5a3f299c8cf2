import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resultSchema, type Result } from '../../src/contracts/index.ts';
import { buildSequences, sequenceToJson, toResultLine } from '../../src/trajectory/index.ts';
import { shortFloat32 } from '../../src/trajectory/short-float.ts';
import { resultSummary } from '../support/result-summary.ts';
import { call } from './call-records.ts';

const float32 = fc.float({ noNaN: true, noDefaultInfinity: true });

describe('a logprob in an export', () => {
  it('reads back as the very float32 of the engine', () => {
    fc.assert(
      fc.property(float32, (value) => {
        expect(Math.fround(JSON.parse(JSON.stringify(shortFloat32(value))) as number)).toBe(
          value === 0 ? 0 : value,
        );
      }),
      { numRuns: 3000 },
    );
  });

  it.each([-0.31, -1.5, -0.0001234, -17.25, -9999, -1.1920929e-7, -123.4567, 0])(
    'is as short as %s',
    (decimal) => {
      expect(shortFloat32(Math.fround(decimal))).toBe(decimal);
    },
  );

  it('needs no more than nine significant digits', () => {
    fc.assert(
      fc.property(float32, (value) => {
        const digits = String(shortFloat32(value))
          .replace(/e.*$/, '')
          .replace(/[-.]/g, '')
          .replace(/^0+/, '');
        expect(digits.replace(/0+$/, '').length).toBeLessThanOrEqual(9);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('a result line', () => {
  const { sequences, usage, grades } = buildSequences([
    call(0, [1, 2], [10, 11]),
    call(1, [1, 2, 10, 11, 3], [12], { logprobs: Float32Array.of(NaN), finish_reason: null }),
    call(2, [9], [], { token_ids: null, prompt_token_ids: null, logprobs: null }),
  ]);
  const summary = resultSummary({ usage, grades });

  it('holds plain arrays, obeys the schema and survives JSON', () => {
    const line = toResultLine(summary, { sequences });
    const read = JSON.parse(JSON.stringify(line)) as Result;
    expect(read).toEqual(line);
    expect(resultSchema.parse(read)).toEqual(line);
    expect(read.sequences[0]).toMatchObject({
      token_ids: [1, 2, 10, 11, 3, 12],
      loss_mask: [0, 0, 1, 1, 0, 1],
    });
    expect(Float32Array.from(read.sequences[0]!.logprobs)).toEqual(sequences[0]!.logprobs);
  });

  it('has no sequences when the attempt left no payload', () => {
    expect(resultSchema.parse(toResultLine(summary, null))).toEqual({ ...summary, sequences: [] });
  });

  it('shows -0.31 and not -0.3100000023841858', () => {
    const [sequence] = buildSequences([call(0, [1], [2], { logprobs: Float32Array.of(-0.31) })]).sequences;
    expect(sequenceToJson(sequence!).logprobs).toEqual([0, -0.31]);
  });
});
