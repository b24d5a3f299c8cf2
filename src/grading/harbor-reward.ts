/** Where the tests of a Harbor task write their logs and their reward. Source: Harbor's task format. */
export const harborLogs = '/logs/verifier';

/** A file that may hold the reward, and the longest one read, in bytes. */
export interface HarborRewardFile {
  readonly path: string;
  readonly maxBytes: number;
}

/** Named numbers as a JSON object; taken before the text file where there are both, as Harbor 0.26 does. */
export const harborRewardJson: HarborRewardFile = { path: `${harborLogs}/reward.json`, maxBytes: 65_536 };
/** One number. */
export const harborRewardText: HarborRewardFile = { path: `${harborLogs}/reward.txt`, maxBytes: 4096 };

/** What the two files say; null: not there, or not a regular file of sensible size. */
export interface HarborRewardTexts {
  readonly json: string | null;
  readonly text: string | null;
}

/** The name of the one number that counts, and of the number in the text file. */
export const harborRewardName = 'reward';

/**
 * The numbers of a reward.json and the one that counts: the only one, or the one named `reward`. A boolean counts as 1 or
 * 0, as it does for Harbor. In words what is wrong with it otherwise.
 */
export function parseHarborRewards(
  json: string,
):
  | { readonly reward: number; readonly rewards: Readonly<Record<string, number>> }
  | { readonly wrong: string } {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return { wrong: `is no JSON: ${JSON.stringify(json.slice(0, 80))}` };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { wrong: 'is no JSON object of numbers' };
  }
  const numbers: [string, number][] = [];
  for (const [name, given] of Object.entries(value)) {
    const number = typeof given === 'boolean' ? Number(given) : (given as unknown);
    if (typeof number !== 'number' || !Number.isFinite(number)) {
      return { wrong: `has no finite number at ${JSON.stringify(name.slice(0, 80))}` };
    }
    // A zero is one number, whatever its sign.
    numbers.push([name, number === 0 ? 0 : number]);
  }
  const [first, ...others] = numbers;
  if (first === undefined) return { wrong: 'has no numbers' };
  const [, reward] =
    others.length === 0 ? first : (numbers.find(([name]) => name === harborRewardName) ?? []);
  if (reward === undefined) {
    return { wrong: `has ${numbers.length} numbers, and none of them is named ${harborRewardName}` };
  }
  return { reward, rewards: Object.fromEntries(numbers) };
}
