import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readScore } from '../../src/grading/verifier-score.ts';

describe('what a verifier returned', () => {
  it.each<[unknown, number]>([
    [1, 1],
    [0, 0],
    [0.25, 0.25],
    [-0, 0],
    [true, 1],
    [false, 0],
    ['0.5', 0.5],
    [' 1 ', 1],
    ['1e-1', 0.1],
    [{ score: 1 }, 1],
    [{ score: '0.75', feedback: 'good' }, 0.75],
    [{ score: false }, 0],
    [1 + 2e-16, 1],
    [-1e-12, 0],
  ])('%j is the score %d', (result, score) => {
    expect(readScore(result)).toMatchObject({ score, nullResult: false });
  });

  it.each([null, undefined])('%j is a pass that is marked', (result) => {
    expect(readScore(result)).toEqual({ score: 1, parts: {}, nullResult: true });
  });

  it.each<[unknown]>([
    [NaN],
    [Infinity],
    [-Infinity],
    ['NaN'],
    ['-inf'],
    ['Infinity'],
    [1.5],
    [-1],
    [100],
    ['2'],
    [{ score: 1.01 }],
    [{ score: 'nan' }],
    ['1e999'],
  ])('%j is out of range', (result) => {
    expect(readScore(result)).toMatchObject({ fault: { code: 'reward_out_of_range' } });
  });

  it.each<[unknown]>([
    [''],
    ['pass'],
    ['0x1'],
    ['1 of 2'],
    [[]],
    [[1]],
    [{}],
    [{ reward: 1 }],
    [{ score: null }],
    [{ score: [1] }],
    [{ score: { score: 1 } }],
    [Object.create({ score: 1 })],
  ])('%j is no score, and never a 0', (result) => {
    expect(readScore(result)).toMatchObject({ fault: { code: 'reward_invalid' } });
  });

  it('keeps the other numbers of an object, and only so many', () => {
    const parts = { accuracy: 0.5, max_score: 10, passed: true };
    const rest = {
      feedback: 'x',
      nested: { a: 1 },
      'a b': 1,
      inf: Infinity,
      verifier: 0.1,
      ['__proto__']: 1,
    };
    expect(readScore({ score: 0, ...parts, ...rest })).toMatchObject({
      parts: { accuracy: 0.5, max_score: 10, passed: 1 },
    });
    const many = Object.fromEntries(Array.from({ length: 500 }, (_none, index) => [`c${index}`, index]));
    const read = readScore({ score: 1, ...many });
    expect('parts' in read && Object.keys(read.parts)).toHaveLength(16);
  });

  it('is quoted in part when it is no score', () => {
    const read = readScore('x'.repeat(100_000));
    expect('fault' in read && read.fault.message.length).toBeLessThan(300);
  });

  it('is a number from 0 to 1 or a fault, whatever it is', () => {
    const scored = fc.record({ score: fc.oneof(fc.double(), fc.anything()) });
    fc.assert(
      fc.property(fc.oneof(fc.double(), fc.string(), scored, fc.anything()), (result) => {
        const read = readScore(result);
        if ('fault' in read) return;
        expect(read.score).toBeGreaterThanOrEqual(0);
        expect(read.score).toBeLessThanOrEqual(1);
      }),
      { numRuns: 3_000 },
    );
  });
});
