import type { ResultSummary } from '../../contracts/index.ts';
import { passAt } from './pass-at.ts';
import { mean, tally, type Tally } from './tally.ts';
import { tokenBuckets, type TokenBucket } from './token-buckets.ts';

/** One row of the results table. */
interface TaskSummary extends Tally {
  readonly task_key: string;
  readonly passed: number;
  /** Chance that one sample passes; null when none was scored. */
  readonly pass_at_1: number | null;
  /** Chance that at least one of `k` samples passes. */
  readonly pass_at_n: number | null;
  /** The n of `pass_at_n`: the group's size, or as many as were scored when that is less. */
  readonly k: number;
}

interface RunSummary {
  /** In order of first appearance. */
  readonly tasks: readonly TaskSummary[];
  /** Counts over all results; `pass_at_1` and `pass_at_n` are means over tasks, as each task counts once. */
  readonly totals: Tally & {
    readonly tasks: number;
    readonly pass_at_1: number | null;
    readonly pass_at_n: number | null;
    readonly by_sampled_tokens: readonly TokenBucket[];
  };
}

/** A reward of at least the top of the task's `reward_range`, which is 1 where the grader says no other. */
function isPass({ reward, metrics }: ResultSummary): boolean {
  const top = metrics['reward_max'];
  return reward !== null && reward >= (typeof top === 'number' ? top : 1);
}

function taskSummary(task: string, results: readonly ResultSummary[]): TaskSummary {
  const counts = tally(results);
  const passed = results.filter(isPass).length;
  const groupSize = results.reduce((largest, { group_size }) => Math.max(largest, group_size), 0);
  const k = Math.min(counts.scored, groupSize);
  return {
    task_key: task,
    ...counts,
    passed,
    pass_at_1: passAt(1, counts.scored, passed),
    pass_at_n: passAt(k, counts.scored, passed),
    k,
  };
}

const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

/**
 * The results table: rewards, passes, turns, tokens, grades and failures by task and in all. A pass is a reward of at
 * least the top of the task's range. A result without a reward is no sample: it counts in `n` and `failures` only, so
 * that our own failures never lower a score.
 */
export function summarise(results: readonly ResultSummary[]): RunSummary {
  const byTask = new Map<string, ResultSummary[]>();
  for (const result of results) {
    const own = byTask.get(result.task_key);
    if (own === undefined) byTask.set(result.task_key, [result]);
    else own.push(result);
  }
  const tasks = [...byTask].map(([task, own]) => taskSummary(task, own));
  return {
    tasks,
    totals: {
      tasks: tasks.length,
      ...tally(results),
      pass_at_1: mean(known(tasks.map((task) => task.pass_at_1))),
      pass_at_n: mean(known(tasks.map((task) => task.pass_at_n))),
      by_sampled_tokens: tokenBuckets(results),
    },
  };
}
