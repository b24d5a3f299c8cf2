import { episodeId, groupId, type Lane, type ResultSummary, type Task } from '../contracts/index.ts';
import { groupField, type ClosedGroup } from './closed-group.ts';
import type { CarriedMember, GroupFence, KnownGroup } from './lua/fence-group.ts';
import type { RepairParts } from './repair.ts';

/** The group of a task as it is added first. */
export function firstGeneration(of: {
  readonly run_id: string;
  readonly batch_id: string;
  readonly task: Task;
  readonly task_ref: string;
  readonly lane: Lane;
  readonly samples: number;
}): GroupFence {
  const { run_id, batch_id, lane, task_ref } = of;
  const { task_key } = of.task;
  const group_id = groupId(run_id, batch_id, task_key);
  return {
    run_id,
    batch_id,
    group_id,
    episode_ids: Array.from({ length: of.samples }, (_none, sample) =>
      episodeId(run_id, batch_id, task_key, sample),
    ),
    task_key,
    task_ref,
    lane,
    generation: 0,
    base_group_id: group_id,
    previous_group_id: group_id,
    superseded: [],
    carried: [],
  };
}

/** The same group in a later generation that exists already: enough to ask for its state. */
export function sameGeneration(group: GroupFence, generation: number): GroupFence {
  return {
    ...group,
    generation,
    group_id: groupId(group.run_id, group.batch_id, group.task_key, generation),
  };
}

/**
 * The next generation of a closed group: what failed, was cancelled or is missing gets new ids, what has a result keeps
 * its slot. Where the closed group is gone from its stream, every sample runs again. null: there is nothing to retry.
 */
export async function nextGeneration(
  parts: Pick<RepairParts, 'redis' | 'names'>,
  group: GroupFence,
  known: KnownGroup,
): Promise<GroupFence | null> {
  if (!known.slots.some((slot) => /^[FXM]/.test(slot))) return null;
  const generation = group.generation + 1;
  const { run_id, batch_id, task_key } = group;
  const next = sameGeneration(group, generation);
  const [entry] = await parts.redis.xrange(parts.names.groups(run_id), known.entry, known.entry);
  const closed = entry === undefined ? null : closedGroupOf(entry[1]);
  const carried = closed === null ? [] : carriedMembers(closed, next.group_id);
  const kept = new Map(carried.map((member) => [member.sample_index, member]));
  const old = idsOf(closed, group);
  const episode_ids = known.slots.map((_slot, sample) =>
    kept.has(sample) ? old[sample]! : episodeId(run_id, batch_id, task_key, sample, generation),
  );
  return {
    ...next,
    episode_ids,
    previous_group_id: group.group_id,
    superseded: old.filter((_id, sample) => !kept.has(sample)),
    carried,
  };
}

function closedGroupOf(fields: readonly string[]): ClosedGroup {
  return JSON.parse(fields[fields.indexOf(groupField) + 1]!) as ClosedGroup;
}

/** Episode ids of a closed group by sample; without its entry, those its generation would have had. */
function idsOf(closed: ClosedGroup | null, group: GroupFence): string[] {
  const ids = group.episode_ids.map((id, sample) =>
    group.generation === 0
      ? id
      : episodeId(group.run_id, group.batch_id, group.task_key, sample, group.generation),
  );
  for (const { summary } of closed?.results ?? []) ids[summary.sample_index] = summary.episode_id;
  for (const { sample_index, episode_id } of closed?.missing ?? []) ids[sample_index] = episode_id;
  return ids;
}

function carriedMembers(closed: ClosedGroup, group_id: string): CarriedMember[] {
  return closed.results
    .filter(({ summary }) => summary.status === 'completed' || summary.status === 'truncated')
    .map(({ summary, payload }) => {
      const moved: ResultSummary = { ...summary, group_id };
      return {
        sample_index: summary.sample_index,
        letter: summary.status === 'completed' ? 'C' : 'T',
        reward: summary.reward,
        sampled_tokens: summary.usage.completion_tokens,
        member: JSON.stringify({ summary: moved, payload }),
      };
    });
}
