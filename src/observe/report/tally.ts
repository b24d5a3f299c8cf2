import type { Grade, ResultSummary, Status } from '../../contracts/index.ts';

/** Null for no values: nothing is known, which is not 0. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((total, value) => total + value, 0) / values.length;
}

/** What can be counted over any list of results. */
export interface Tally {
  /** Results. */
  readonly n: number;
  /** Results with a reward. */
  readonly scored: number;
  readonly statuses: Readonly<Record<Status, number>>;
  /** Over scored results; null when there are none. */
  readonly mean_reward: number | null;
  /** Over results that say how many turns they had. */
  readonly mean_turns: number | null;
  readonly tokens: { readonly prompt: number; readonly sampled: number; readonly discarded: number };
  /** Sequences by certificate grade. */
  readonly grades: Readonly<Record<Grade, number>>;
  /** Of the calls that followed another of their agent, the share whose prompt did not begin with it; null for none. */
  readonly fork_rate: number | null;
  /** Results without a reward, by `failure.code`. */
  readonly failures: Readonly<Record<string, number>>;
}

export function tally(results: readonly ResultSummary[]): Tally {
  const statuses = { completed: 0, truncated: 0, failed: 0, cancelled: 0 };
  const tokens = { prompt: 0, sampled: 0, discarded: 0 };
  const grades = { exact: 0, forked: 0, untrainable: 0 };
  const failures = new Map<string, number>();
  for (const { status, usage, grades: found, failure } of results) {
    statuses[status] += 1;
    tokens.prompt += usage.prompt_tokens;
    tokens.sampled += usage.completion_tokens;
    tokens.discarded += usage.discarded_tokens;
    grades.exact += found.exact;
    grades.forked += found.forked;
    grades.untrainable += found.untrainable;
    if (failure !== null) failures.set(failure.code, (failures.get(failure.code) ?? 0) + 1);
  }
  const rewards = results.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const turns = results.flatMap(({ metrics }) =>
    typeof metrics['turns'] === 'number' ? [metrics['turns']] : [],
  );
  const calls = (name: string): number =>
    results.reduce((sum, { metrics }) => {
      const value = metrics[name];
      return sum + (typeof value === 'number' ? value : 0);
    }, 0);
  const followed = calls('followed_calls');
  return {
    n: results.length,
    scored: rewards.length,
    statuses,
    mean_reward: mean(rewards),
    mean_turns: mean(turns),
    tokens,
    grades,
    fork_rate: followed === 0 ? null : calls('forked_calls') / followed,
    failures: Object.fromEntries([...failures].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
