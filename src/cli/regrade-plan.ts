import { createHash } from 'node:crypto';
import { readTasks, type TasksReport } from '../../producer/index.ts';
import type { regradeLanes } from '../../workers/regrade-worker.ts';
import { episodeId, type RegradeOrder, type ResultSummary, type Task } from '../contracts/index.ts';
import type { Consumer } from '../queue/consumer/index.ts';

export type KeepingProvider = keyof typeof regradeLanes;

/** Tasks whose kept samples are equally many, so that one batch holds them. */
export interface RegradeBatch {
  readonly batch_id: string;
  readonly provider: KeepingProvider;
  readonly samples: number;
  readonly tasks: readonly Task[];
}

export interface RegradePlan {
  readonly report: TasksReport;
  readonly batches: readonly RegradeBatch[];
  /** By the id of the episode that grades again. */
  readonly orders: ReadonlyMap<string, RegradeOrder>;
  /** Episodes of the old run whose state was never kept. */
  readonly never_kept: number;
  /** Whose state was kept once and is not there any more, or lies on another machine. */
  readonly gone: number;
  /** Whose task is not in the file. */
  readonly without_task: number;
}

type Kept = ResultSummary & { readonly sandbox: NonNullable<ResultSummary['sandbox']> };

/** A batch's name keeps that of the old one, as long as it fits. */
function batchName(provider: string, samples: number, old: string): string {
  const name = `${provider}-${samples}-${old}`;
  return name.length <= 128
    ? name
    : `${provider}-${samples}-${createHash('sha256').update(old).digest('hex').slice(0, 32)}`;
}

function orderOf(kept: Kept, snapshot: string): RegradeOrder {
  const { run_id, batch_id, episode_id, attempt, sample_index, reward, sandbox, policy, sampling } = kept;
  const ended = sandbox.snapshot ?? kept;
  return {
    source: {
      run_id,
      batch_id,
      episode_id,
      attempt,
      sample_index,
      provider: sandbox.provider,
      snapshot,
      reward,
    },
    status: ended.status,
    stop_reason: ended.stop_reason,
    policy,
    sampling,
  };
}

async function tasksByKey(
  file: string,
  wanted: ReadonlySet<string>,
): Promise<{ tasks: Map<string, Task>; report: TasksReport }> {
  const reading = readTasks(file);
  const tasks = new Map<string, Task>();
  for await (const task of reading) if (wanted.has(task.task_key)) tasks.set(task.task_key, task);
  return { tasks, report: reading.report };
}

/**
 * What of an old run can be graded again by a tasks file: every episode whose final state a provider still has. Samples of
 * a task stay one group, in the order they had.
 */
export async function planRegrade(options: {
  readonly consumer: Pick<Consumer, 'listResults'>;
  readonly run_id: string;
  readonly new_run_id: string;
  readonly file: string;
  /** Names of the kept states that are there, by provider. */
  readonly kept: ReadonlyMap<KeepingProvider, ReadonlySet<string>>;
}): Promise<RegradePlan> {
  const { run_id, new_run_id, kept } = options;
  let never_kept = 0;
  let gone = 0;
  const groups = new Map<string, Kept[]>();
  for await (const { summary } of options.consumer.listResults(run_id)) {
    const { sandbox } = summary;
    if (sandbox?.snapshot === undefined) {
      never_kept += 1;
    } else if (kept.get(sandbox.provider as KeepingProvider)?.has(sandbox.snapshot.name) !== true) {
      gone += 1;
    } else {
      const group = JSON.stringify([sandbox.provider, summary.batch_id, summary.task_key]);
      groups.set(group, [...(groups.get(group) ?? []), { ...summary, sandbox }]);
    }
  }
  const wanted = new Set([...groups.values()].flat().map(({ task_key }) => task_key));
  const { tasks, report } = await tasksByKey(options.file, wanted);

  let without_task = 0;
  const batches = new Map<string, RegradeBatch & { readonly tasks: Task[] }>();
  const orders = new Map<string, RegradeOrder>();
  for (const members of groups.values()) {
    const [first] = members;
    const task = first === undefined ? undefined : tasks.get(first.task_key);
    if (first === undefined || task === undefined) {
      without_task += members.length;
      continue;
    }
    const provider = first.sandbox.provider as KeepingProvider;
    const batch_id = batchName(provider, members.length, first.batch_id);
    const batch = batches.get(batch_id) ?? { batch_id, provider, samples: members.length, tasks: [] };
    batches.set(batch_id, batch);
    batch.tasks.push(task);
    members.sort((a, b) => a.sample_index - b.sample_index);
    for (const [index, member] of members.entries()) {
      const id = episodeId(new_run_id, batch_id, task.task_key, index);
      orders.set(id, orderOf(member, member.sandbox.snapshot?.name ?? ''));
    }
  }
  return { report, batches: [...batches.values()], orders, never_kept, gone, without_task };
}
