import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ResultSummary } from '../../../src/contracts/index.ts';
import { passAt, summarise } from '../../../src/observe/report/index.ts';
import { resultSummary } from '../../support/result-summary.ts';

const infra = {
  status: 'failed',
  stop_reason: 'infra',
  reward: null,
  failure: { class: 'infra', phase: 'agent', code: 'policy_unavailable', message: 'down', retryable: true },
} as const;

function rewards(task: string, ...values: (number | null)[]): ResultSummary[] {
  return values.map((reward) => resultSummary({ task_key: task, ...(reward === null ? infra : { reward }) }));
}

/** Every way to draw k of n, counted. */
function passAtByEnumeration(k: number, n: number, c: number): number {
  let drawn = 0;
  let passed = 0;
  for (let set = 0; set < 2 ** n; set += 1) {
    const members = Array.from({ length: n }, (_, index) => index).filter((index) => (set >> index) & 1);
    if (members.length !== k) continue;
    drawn += 1;
    if (members.some((member) => member < c)) passed += 1;
  }
  return passed / drawn;
}

describe('pass@k', () => {
  it('is the share of draws of k samples that hold a pass', () => {
    fc.assert(
      fc.property(
        fc
          .integer({ min: 1, max: 7 })
          .chain((n) =>
            fc.tuple(fc.integer({ min: 1, max: n }), fc.constant(n), fc.integer({ min: 0, max: n })),
          ),
        ([k, n, c]) => {
          expect(passAt(k, n, c)).toBeCloseTo(passAtByEnumeration(k, n, c), 12);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('is not known when there are fewer than k samples', () => {
    expect(passAt(2, 1, 1)).toBeNull();
    expect(passAt(1, 0, 0)).toBeNull();
    expect(passAt(0, 0, 0)).toBeNull();
  });
});

describe('the results table', () => {
  it('has one row a task, in order of appearance', () => {
    const { tasks } = summarise([...rewards('b', 1, 0), ...rewards('a', 1), ...rewards('b', 0.5, 1)]);
    expect(tasks.map(({ task_key, n, passed }) => [task_key, n, passed])).toEqual([
      ['b', 4, 2],
      ['a', 1, 1],
    ]);
    expect(tasks[0]).toMatchObject({ mean_reward: 0.625, pass_at_1: 0.5, pass_at_n: 1, k: 4 });
  });

  it('never takes a failure of ours for a zero', () => {
    const [task] = summarise(rewards('a', 1, null, null, 0)).tasks;
    expect(task).toMatchObject({
      n: 4,
      scored: 2,
      mean_reward: 0.5,
      pass_at_1: 0.5,
      k: 2,
      failures: { policy_unavailable: 2 },
      statuses: { completed: 2, failed: 2, truncated: 0, cancelled: 0 },
    });
  });

  it('says that it does not know where nothing was scored', () => {
    expect(summarise(rewards('a', null)).tasks[0]).toMatchObject({
      mean_reward: null,
      pass_at_1: null,
      pass_at_n: null,
    });
    expect(summarise([]).totals).toMatchObject({ tasks: 0, n: 0, mean_reward: null, pass_at_1: null });
  });

  it('takes the top of a task’s range for a pass', () => {
    const points = rewards('points', 10, 9).map((result) => ({ ...result, metrics: { reward_max: 10 } }));
    const results = [...points, ...rewards('plain', 1, 0.9)];
    expect(summarise(results).tasks.map(({ passed }) => passed)).toEqual([1, 1]);
  });

  it('estimates pass@n for one group when several batches were sampled', () => {
    const eight = Array.from({ length: 8 }, (_, index) =>
      resultSummary({ batch_id: String(index % 2), group_size: 4, reward: index === 0 ? 1 : 0 }),
    );
    expect(summarise(eight).tasks[0]).toMatchObject({ k: 4, pass_at_n: 0.5 });
  });

  it('adds up tokens, grades and turns, and lets each task count once in the totals of pass@', () => {
    const results = [...rewards('a', 1, 1, 1), ...rewards('b', 0)];
    results.push(
      resultSummary({
        task_key: 'b',
        reward: 0,
        metrics: {},
        grades: { exact: 0, forked: 2, untrainable: 1 },
      }),
    );
    const { totals } = summarise(results);
    expect(totals).toMatchObject({
      tasks: 2,
      n: 5,
      mean_reward: 0.6,
      mean_turns: 3,
      pass_at_1: 0.5,
      pass_at_n: 0.5,
      tokens: { prompt: 1500, sampled: 300, discarded: 0 },
      grades: { exact: 4, forked: 2, untrainable: 1 },
    });
  });

  it('reports retries and infra failures by sampled tokens', () => {
    const usage = (completion_tokens: number) => ({
      calls: 1,
      prompt_tokens: 1,
      completion_tokens,
      discarded_tokens: 0,
    });
    const { by_sampled_tokens: buckets } = summarise([
      resultSummary({ usage: usage(999) }),
      resultSummary({ usage: usage(1000), attempt: 2 }),
      resultSummary({ usage: usage(70_000), attempt: 4, ...infra }),
    ]).totals;
    expect(buckets).toEqual([
      { below: 1000, n: 1, retried: 0, infra: 0 },
      { below: 4000, n: 1, retried: 1, infra: 0 },
      { below: 16_000, n: 0, retried: 0, infra: 0 },
      { below: 64_000, n: 0, retried: 0, infra: 0 },
      { below: null, n: 1, retried: 1, infra: 1 },
    ]);
  });

  it('loses no result, whatever the mixture', () => {
    const result = fc
      .record({
        task: fc.constantFrom('a', 'b', 'c'),
        reward: fc.option(fc.constantFrom(0, 0.5, 1)),
        tokens: fc.nat(100_000),
      })
      .map(({ task, reward, tokens }) => {
        const [summary] = rewards(task, reward);
        return { ...summary!, usage: { ...summary!.usage, completion_tokens: tokens } };
      });
    fc.assert(
      fc.property(fc.array(result, { maxLength: 20 }), (results) => {
        const { tasks, totals } = summarise(results);
        const sum = (of: (task: (typeof tasks)[number]) => number): number =>
          tasks.reduce((all, task) => all + of(task), 0);
        expect(totals.n).toBe(results.length);
        expect(sum(({ n }) => n)).toBe(totals.n);
        expect(sum(({ scored }) => scored)).toBe(totals.scored);
        expect(totals.by_sampled_tokens.reduce((all, { n }) => all + n, 0)).toBe(totals.n);
        expect(Object.values(totals.failures).reduce((all, count) => all + count, 0)).toBe(
          totals.n - totals.scored,
        );
      }),
      { numRuns: 100 },
    );
  });
});
