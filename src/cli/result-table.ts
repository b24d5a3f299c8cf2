import Table from 'cli-table3';
import type { ResultSummary } from '../contracts/index.ts';
import { summarise } from '../observe/report/index.ts';

function number(value: number | null, digits = 2): string {
  return value === null ? '-' : value.toFixed(digits);
}

function counted(counts: Readonly<Record<string, number>>): string {
  return (
    Object.entries(counts)
      .filter(([, count]) => count > 0)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ') || '-'
  );
}

/** Draws the results of a run by task: samples, rewards, passes, turns, tokens, certificate grades, forks, failures. */
export function printResultTable(results: readonly ResultSummary[], stream: NodeJS.WritableStream): void {
  const { tasks, totals } = summarise(results);
  const table = new Table({
    head: ['task', 'n', 'mean reward', 'pass@1', 'pass@n', 'turns', 'tokens', 'grades', 'forks', 'failures'],
    style: { head: [], border: [] },
  });
  // In the order of their names: results come in another order every time.
  const rows = [...tasks].sort((a, b) => (a.task_key < b.task_key ? -1 : 1));
  for (const row of [...rows, { ...totals, task_key: 'all' }]) {
    table.push([
      row.task_key.length > 40 ? `${row.task_key.slice(0, 39)}…` : row.task_key,
      row.n,
      number(row.mean_reward),
      number(row.pass_at_1),
      number(row.pass_at_n),
      number(row.mean_turns, 1),
      row.tokens.sampled,
      counted(row.grades),
      row.fork_rate === null ? '-' : `${(100 * row.fork_rate).toFixed(1)} %`,
      counted({ ...row.failures, cancelled: row.statuses.cancelled }),
    ]);
  }
  stream.write(`${table.toString()}\n`);
}

const failuresShown = 10;

/** Says why episodes have no reward: a line for each cause, with a task that met it. */
export function printFailures(results: readonly ResultSummary[], stream: NodeJS.WritableStream): void {
  const causes = new Map<string, { readonly tasks: Set<string>; episodes: number }>();
  for (const { failure, task_key } of results) {
    if (failure === null) continue;
    const text = `${failure.code}: ${failure.message}`;
    const cause = causes.get(text);
    if (cause === undefined) causes.set(text, { tasks: new Set([task_key]), episodes: 1 });
    else {
      cause.tasks.add(task_key);
      cause.episodes += 1;
    }
  }
  for (const [text, { tasks, episodes }] of [...causes].slice(0, failuresShown)) {
    const [task] = tasks;
    const others = tasks.size > 1 ? ` and ${tasks.size - 1} more` : '';
    stream.write(`${task}${others}${episodes > 1 ? ` (${episodes} episodes)` : ''}: ${text}\n`);
  }
  if (causes.size > failuresShown) stream.write(`and ${causes.size - failuresShown} other causes\n`);
}
