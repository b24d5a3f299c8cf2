import type { Verify, VerifyOutcome } from '../contracts/index.ts';
import {
  harborRewardJson,
  harborRewardName,
  harborRewardText,
  parseHarborRewards,
  type HarborRewardTexts,
} from './harbor-reward.ts';
import { countJunit, JunitError } from './junit.ts';

export type RewardRule =
  | { readonly kind: 'all' }
  | { readonly kind: 'fraction' }
  | { readonly kind: 'harbor' }
  | { readonly kind: 'junit'; readonly path: string }
  | { readonly kind: 'file'; readonly path: string };

/**
 * A reward rule taken apart: `junit:PATH` and `file:PATH` have a path relative to the working directory; the files of
 * `harbor` have fixed places, which harbor-reward.ts names.
 */
export function parseRewardRule(rule: Verify['reward']): RewardRule {
  if (rule === 'all' || rule === 'fraction' || rule === 'harbor') return { kind: rule };
  const at = rule.indexOf(':');
  return { kind: rule.slice(0, at) as 'junit' | 'file', path: rule.slice(at + 1) };
}

type RewardFault = { readonly code: 'reward_missing' | 'reward_invalid'; readonly message: string };
export type RewardResult =
  | {
      readonly reward: number;
      readonly rewards: Readonly<Record<string, number>>;
      readonly metrics: Readonly<Record<string, number>>;
    }
  | { readonly fault: RewardFault };

/** Longest reward file read, in bytes: a number and some white space. */
export const maxRewardFileBytes = 4096;

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** The number in a reward file; null unless the text is one finite decimal number, white space around it allowed. */
export function parseRewardNumber(text: string): number | null {
  const trimmed = text.trim();
  if (!decimal.test(trimmed)) return null;
  const value = Number(trimmed);
  if (!Number.isFinite(value)) return null;
  // A zero is one number, whatever its sign.
  return value === 0 ? 0 : value;
}

/** True when a command passed: it ended by itself with 0. */
export function passed(outcome: VerifyOutcome): boolean {
  return outcome.exit_code === 0;
}

function fault(code: RewardFault['code'], message: string): RewardResult {
  return { fault: { code, message } };
}

function inRange(
  reward: number,
  [low, high]: Verify['reward_range'],
  name: string | Readonly<Record<string, number>>,
  metrics: Readonly<Record<string, number>>,
): RewardResult {
  if (!(reward >= low && reward <= high)) {
    return fault('reward_invalid', `the reward ${reward} is outside reward_range [${low}, ${high}]`);
  }
  return { reward, rewards: typeof name === 'string' ? { [name]: reward } : name, metrics };
}

type Unusable = (code: RewardFault['code'], message: string) => RewardResult;

function fromNumber(
  text: string,
  path: string,
  range: Verify['reward_range'],
  name: string,
  unusable: Unusable,
): RewardResult {
  const value = parseRewardNumber(text);
  return value === null
    ? unusable('reward_invalid', `${path} holds no finite number: ${JSON.stringify(text.slice(0, 80))}`)
    : inRange(value, range, name, {});
}

/** The range is that of the number that counts; the others only have to be finite. */
function fromHarbor(
  { json, text }: HarborRewardTexts,
  range: Verify['reward_range'],
  unusable: Unusable,
): RewardResult {
  if (json !== null) {
    const read = parseHarborRewards(json);
    return 'wrong' in read
      ? unusable('reward_invalid', `${harborRewardJson.path} ${read.wrong}`)
      : inRange(read.reward, range, read.rewards, {});
  }
  if (text !== null) return fromNumber(text, harborRewardText.path, range, harborRewardName, unusable);
  return unusable(
    'reward_missing',
    `the verify commands wrote no readable regular file ${harborRewardJson.path} or ${harborRewardText.path}`,
  );
}

/**
 * Applies a reward rule. `file` is the reward file's text, null when it was not there or not a regular file of sensible
 * size (rule `harbor`: the texts of both its files); `cutShort` says that a command was killed (deadline, memory), so that a missing or half-written file is the doing
 * of what was graded and not of the verifier: the reward is then 0, or the low end of a range without 0.
 */
export function computeReward(
  verify: Pick<Verify, 'reward' | 'reward_range'>,
  outcomes: readonly VerifyOutcome[],
  file: string | HarborRewardTexts | null,
  cutShort: boolean,
): RewardResult {
  const rule = parseRewardRule(verify.reward);
  const range = verify.reward_range;
  if (rule.kind === 'all') return inRange(outcomes.every(passed) ? 1 : 0, range, 'tests', {});
  if (rule.kind === 'fraction') {
    return inRange(outcomes.filter(passed).length / outcomes.length, range, 'tests', {});
  }

  const name = { junit: 'tests', file: 'file', harbor: harborRewardName }[rule.kind];
  const nothing = range[0] <= 0 && range[1] >= 0 ? 0 : range[0];
  const unusable: Unusable = (code, message) =>
    cutShort ? inRange(nothing, range, name, {}) : fault(code, message);

  if (rule.kind === 'harbor') {
    const texts = typeof file === 'object' && file !== null ? file : { json: null, text: file };
    return fromHarbor(texts, range, unusable);
  }
  if (typeof file !== 'string') {
    return unusable('reward_missing', `the verify commands wrote no readable regular file ${rule.path}`);
  }
  if (rule.kind === 'file') return fromNumber(file, rule.path, range, name, unusable);
  try {
    const counts = countJunit(file);
    if (counts.tests === 0) return unusable('reward_invalid', `${rule.path} has no test case`);
    return inRange(counts.passed / counts.tests, range, name, {
      tests: counts.tests,
      tests_passed: counts.passed,
      ...(counts.skipped > 0 ? { tests_skipped: counts.skipped } : {}),
    });
  } catch (error) {
    if (!(error instanceof JunitError)) throw error;
    return unusable('reward_invalid', `${rule.path} is no JUnit report: ${error.message}`);
  }
}
