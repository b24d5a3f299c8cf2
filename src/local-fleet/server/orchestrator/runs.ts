import { account } from '../instances/instance-answer.ts';
import type { Instance } from '../instances/instance.ts';

interface Run {
  running: number;
  total: number;
  first: Date;
  last: Date;
}

/** The runs that instances belong to, as the wire lists them; `active`, `inactive` or `all`. */
export function runsOf(
  instances: readonly Instance[],
  which: string,
): readonly Readonly<Record<string, unknown>>[] {
  const runs = new Map<string, Run>();
  for (const instance of instances) {
    const { run_id } = instance.plan;
    if (run_id === null) continue;
    const { created } = instance;
    const run = runs.get(run_id) ?? { running: 0, total: 0, first: created, last: created };
    run.total += 1;
    if (instance.live) run.running += 1;
    if (created < run.first) run.first = created;
    if (created > run.last) run.last = created;
    runs.set(run_id, run);
  }
  return [...runs]
    .filter(([, { running }]) => which === 'all' || running > 0 === (which === 'active'))
    .map(([run_id, { running, total, first, last }]) => ({
      run_id,
      running_count: running,
      total_count: total,
      first_created_at: first.toISOString(),
      last_created_at: last.toISOString(),
      profile_id: account.profile_id,
    }));
}
