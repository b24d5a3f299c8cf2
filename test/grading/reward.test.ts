import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifyOutcome } from '../../src/contracts/index.ts';
import { computeReward, parseRewardNumber, parseRewardRule } from '../../src/grading/reward.ts';

const outcome = (exit_code: number | null): VerifyOutcome => ({
  command: 'x',
  exit_code,
  stdout_tail: '',
  stderr_tail: '',
  seconds: 0,
});
const exits = fc.array(fc.option(fc.nat({ max: 140 })), { minLength: 1, maxLength: 12 });
const unit: [number, number] = [0, 1];

describe('the reward rules', () => {
  it('all: 1 exactly when every command passed', () => {
    fc.assert(
      fc.property(exits, (codes) => {
        const result = computeReward({ reward: 'all', reward_range: unit }, codes.map(outcome), null, false);
        const reward = codes.every((code) => code === 0) ? 1 : 0;
        expect(result).toMatchObject({ reward, rewards: { tests: reward } });
      }),
    );
  });

  it('fraction: passed commands over commands; a command that was killed has not passed', () => {
    fc.assert(
      fc.property(exits, (codes) => {
        const result = computeReward(
          { reward: 'fraction', reward_range: unit },
          codes.map(outcome),
          null,
          true,
        );
        expect(result).toMatchObject({ reward: codes.filter((code) => code === 0).length / codes.length });
      }),
    );
  });

  it('junit: passed tests over tests, skipped ones among the tests', () => {
    const xml =
      '<testsuite><testcase/><testcase><skipped/></testcase><testcase/><testcase><error/></testcase></testsuite>';
    expect(computeReward({ reward: 'junit:r.xml', reward_range: unit }, [outcome(1)], xml, false)).toEqual({
      reward: 0.5,
      rewards: { tests: 0.5 },
      metrics: { tests: 4, tests_passed: 2, tests_skipped: 1 },
    });
  });

  it('file: any finite number inside the range, its ends included', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, min: -1e9, max: 1e9 }),
        fc.double({ noNaN: true, min: -1e9, max: 1e9 }),
        fc.double({ noNaN: true, min: -2e9, max: 2e9 }),
        (...drawn) => {
          const [a, b, value] = drawn.map((number) => number + 0) as [number, number, number];
          fc.pre(a !== b);
          const range: [number, number] = [Math.min(a, b), Math.max(a, b)];
          const grade = (text: string): unknown =>
            computeReward({ reward: 'file:reward.txt', reward_range: range }, [outcome(0)], text, false);
          if (value >= range[0] && value <= range[1])
            expect(grade(` ${value}\n`)).toMatchObject({ reward: value });
          else expect(grade(` ${value}\n`)).toMatchObject({ fault: { code: 'reward_invalid' } });
          expect(grade(String(range[0]))).toMatchObject({ reward: range[0] });
          expect(grade(String(range[1]))).toMatchObject({ reward: range[1] });
        },
      ),
    );
  });

  it.each([
    '',
    ' ',
    'nan',
    'NaN',
    'inf',
    '-Infinity',
    '1e999',
    '0x1',
    '1,0',
    '1 0',
    '0.5 points',
    '1_0',
    '٣',
    'null',
    '[1]',
  ])('a reward file that says %j is no reward', (text) => {
    expect(parseRewardNumber(text)).toBeNull();
    expect(computeReward({ reward: 'file:r', reward_range: unit }, [outcome(0)], text, false)).toMatchObject({
      fault: { code: 'reward_invalid' },
    });
  });

  it('a reward outside the range is a fault of the task, whatever the rule', () => {
    const range: [number, number] = [0.5, 2];
    expect(computeReward({ reward: 'all', reward_range: range }, [outcome(1)], null, false)).toMatchObject({
      fault: { code: 'reward_invalid' },
    });
  });

  it('a report without a test case, or that is no report, is a fault of the task', () => {
    for (const xml of ['<testsuites/>', '<testsuites>', 'oops']) {
      expect(
        computeReward({ reward: 'junit:r', reward_range: unit }, [outcome(0)], xml, false),
      ).toMatchObject({
        fault: { code: 'reward_invalid' },
      });
    }
  });

  it('a missing file is a fault of the task, unless a command was killed: then it is nothing earned', () => {
    for (const reward of ['file:r', 'junit:r'] as const) {
      const grade = (range: [number, number], cutShort: boolean): unknown =>
        computeReward({ reward, reward_range: range }, [outcome(null)], null, cutShort);
      expect(grade(unit, false)).toMatchObject({ fault: { code: 'reward_missing' } });
      expect(grade(unit, true)).toMatchObject({ reward: 0 });
      expect(grade([-1, 1], true)).toMatchObject({ reward: 0 });
      expect(grade([1, 5], true)).toMatchObject({ reward: 1 });
    }
  });

  it('a rule names its file after the first colon', () => {
    expect(parseRewardRule('file:a:b/c.txt')).toEqual({ kind: 'file', path: 'a:b/c.txt' });
    expect(parseRewardRule('fraction')).toEqual({ kind: 'fraction' });
  });
});

describe('the reward of a Harbor task', () => {
  const grade = (
    json: string | null,
    text: string | null,
    { range = unit, cutShort = false }: { range?: [number, number]; cutShort?: boolean } = {},
  ): unknown =>
    computeReward({ reward: 'harbor', reward_range: range }, [outcome(1)], { json, text }, cutShort);

  it('is the number in reward.txt, whatever the exit code of the tests', () => {
    expect(grade(null, '0.25\n')).toEqual({ reward: 0.25, rewards: { reward: 0.25 }, metrics: {} });
  });

  it('is the one in reward.json where there are both files', () => {
    expect(grade('{"accuracy": 0.5}', '1')).toEqual({
      reward: 0.5,
      rewards: { accuracy: 0.5 },
      metrics: {},
    });
  });

  it('is the number named reward among several, and the others may lie outside its range', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string().filter((name) => name !== '__proto__'),
          fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
        ),
        fc.double({ noNaN: true, min: 0, max: 1 }).map((value) => value + 0),
        (others, reward) => {
          const rewards = { ...others, reward };
          expect(grade(JSON.stringify(rewards), null)).toEqual({ reward, rewards, metrics: {} });
        },
      ),
    );
  });

  it('takes true for 1 and false for 0, as Harbor does', () => {
    expect(grade('{"reward": true, "tidy": false}', null)).toMatchObject({
      reward: 1,
      rewards: { reward: 1, tidy: 0 },
    });
  });

  it.each([
    '',
    '{}',
    '[]',
    '1',
    'null',
    '[1]',
    '{"reward": NaN}',
    '{"reward": 1e999}',
    '{"reward": "1"}',
    '{"reward": null}',
    '{"reward": {"a": 1}}',
    '{"a": 1, "b": 1}',
    '{"reward": 1, "note": "good"}',
    '{"reward": 1',
    '{"reward": 2}',
  ])('is invalid where reward.json says %j, though reward.txt has a number', (json) => {
    expect(grade(json, '1')).toMatchObject({ fault: { code: 'reward_invalid' } });
  });

  it('is missing where the tests wrote neither file, unless they were killed: then nothing was earned', () => {
    expect(grade(null, null)).toMatchObject({ fault: { code: 'reward_missing' } });
    expect(grade(null, null, { cutShort: true })).toMatchObject({ reward: 0, rewards: { reward: 0 } });
    expect(grade('{"rew', '1', { cutShort: true })).toMatchObject({ reward: 0 });
    expect(grade(null, '', { cutShort: true, range: [-1, 1] })).toMatchObject({ reward: 0 });
  });

  it('has no path of its own in the rule', () => {
    expect(parseRewardRule('harbor')).toEqual({ kind: 'harbor' });
  });
});
