import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CompletionParser } from '../../src/policy/completion-parser.ts';
import { NextToken } from '../../src/policy/distribution.ts';
import { generate } from '../../src/policy/generation.ts';
import { Random } from '../../src/policy/hashing.ts';
import { draw, type SamplingSettings } from '../../src/policy/sampler.ts';
import { endOfTurn } from '../../src/policy/special-tokens.ts';
import { decodeTokens, encodeText, tokenBytes } from '../../src/policy/tokenizer.ts';

const plain: SamplingSettings = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: new Map(),
};
const none = { output: new Map<number, number>(), prompt: new Set<number>() };
const three = [
  { id: 1, p: 0.5 },
  { id: 2, p: 0.3 },
  { id: 3, p: 0.2 },
];

function sample(texts: readonly string[], key: string, splitRate = 0.2) {
  const random = new Random(key);
  return generate({
    writings: texts.map((text, option) => ({ weight: 1, parts: [text], option })),
    settings: plain,
    promptIds: new Int32Array(0),
    maxTokens: 10_000,
    stop: [],
    includeStop: false,
    reader: new CompletionParser(false),
    splitRate,
    uniform: () => random.next(),
  });
}

describe('drawing a token', () => {
  it('reports the logarithm of the probability it draws with', () => {
    const random = new Random('frequencies');
    const settings = { ...plain, temperature: 1.7, topK: 2 };
    const counts = new Map<number, number>();
    const rounds = 40_000;
    const reported = new Map<number, number>();
    for (let round = 0; round < rounds; round += 1) {
      const drawn = draw(three, settings, none, () => random.next());
      counts.set(drawn.id, (counts.get(drawn.id) ?? 0) + 1);
      reported.set(drawn.id, drawn.processed);
    }
    expect([...counts.keys()].sort()).toEqual([1, 2]);
    for (const [id, count] of counts)
      expect(Math.exp(reported.get(id) ?? 0)).toBeCloseTo(count / rounds, 1.7);
  });

  it.each([
    [
      'temperature',
      { temperature: 2 },
      1,
      Math.sqrt(0.5) / (Math.sqrt(0.5) + Math.sqrt(0.3) + Math.sqrt(0.2)),
    ],
    ['top_k', { topK: 1 }, 1, 1],
    ['top_p', { topP: 0.7 }, 1, 0.5 / 0.8],
    ['min_p', { minP: 0.5 }, 1, 0.5 / 0.8],
    ['a bias', { logitBias: new Map([[3, 100]]) }, 3, 1],
    ['greedy, under the distribution without temperature', { temperature: 0 }, 1, 0.5],
  ])('follows %s', (_name, change, id, p) => {
    const drawn = draw(three, { ...plain, ...change }, none, () => 0);
    expect(drawn.id).toBe(id);
    expect(Math.exp(drawn.processed)).toBeCloseTo(p, 6);
    expect(Math.exp(drawn.raw)).toBeCloseTo(three[id - 1]?.p ?? 0, 6);
  });

  it('follows the penalties', () => {
    const counts = { output: new Map([[1, 2]]), prompt: new Set([2]) };
    const p = (settings: SamplingSettings): number[] => {
      const all = draw(three, settings, counts, () => 0).processedFrom;
      return three.map(({ id }) => all.find((one) => one.id === id)?.p ?? 0);
    };
    const share = (weights: number[]): number[] =>
      weights.map((weight) => weight / weights.reduce((sum, one) => sum + one, 0));
    const close = (found: number[], wanted: number[]): void =>
      found.forEach((value, index) => expect(value).toBeCloseTo(wanted[index] ?? 0, 6));
    close(p({ ...plain, presencePenalty: 1 }), share([0.5 / Math.E, 0.3, 0.2]));
    close(p({ ...plain, frequencyPenalty: 1 }), share([0.5 / Math.E ** 2, 0.3, 0.2]));
    close(p({ ...plain, repetitionPenalty: 2 }), share([0.5 ** 2, 0.3 ** 2, 0.2]));
  });
});

describe('the distribution over the next token', () => {
  it('adds up to one at every place, and its samples spell one of the writings', () => {
    const texts = fc.array(fc.string({ unit: 'binary', maxLength: 40 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(texts, fc.integer(), (writings, key) => {
        const { steps, finish } = sample(writings, String(key));
        expect(finish).toBe('stop');
        const ids = steps.map((step) => step.draw.id);
        expect(ids.at(-1)).toBe(endOfTurn);
        expect(writings).toContain(decodeTokens(ids, true));
        for (const { draw: drawn } of steps) {
          const total = drawn.rawFrom.reduce((sum, one) => sum + one.p, 0);
          expect(total).toBeCloseTo(1, 9);
          expect(drawn.processed).toBeLessThanOrEqual(0);
        }
      }),
    );
  });

  it('gives the first tokens that differ the true probability of their branch', () => {
    const random = new Random('branches');
    const writings = [
      { weight: 3, parts: ['I agree.'], option: 0 },
      { weight: 1, parts: ['I disagree.'], option: 1 },
    ];
    const next = new NextToken(writings, 0);
    const walked: number[] = [];
    for (;;) {
      const { id, processed } = draw(next.candidates(), plain, none, () => random.next());
      walked.push(processed);
      if (id === endOfTurn) break;
      next.accept(id, tokenBytes(id).length);
    }
    const [option] = next.options();
    const total = Math.exp(walked.reduce((sum, logprob) => sum + logprob, 0));
    expect(total).toBeCloseTo(option === 0 ? 0.75 : 0.25, 6);
  });

  it('writes canonically at split rate 0 and otherwise not always', () => {
    const text = 'The function returns the mean of the two middle values of a sorted copy.';
    const ids = (splitRate: number): number[] =>
      sample([text], 'key', splitRate).steps.map((step) => step.draw.id);
    expect(ids(0)).toEqual([...encodeText(text), endOfTurn]);
    expect(ids(0.3)).not.toEqual(ids(0));
  });
});
