import type { Redis } from 'ioredis';
import type { Lane } from '../../contracts/index.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript, replies } from './script.ts';

type Reply = ['new'] | ['known', string, string, string, string, string, string];
const script = new LuaScript<Reply>('fence-group', 5);

/** A result of an earlier generation that keeps its slot. */
export interface CarriedMember {
  readonly sample_index: number;
  /** The tombstone's letter of its status: C, T, F or X. */
  readonly letter: string;
  readonly reward: number | null;
  readonly sampled_tokens: number;
  /** A Delivered as JSON. */
  readonly member: string;
}

/** A group to be fenced, with the ids its episodes get. */
export interface GroupFence {
  readonly run_id: string;
  readonly batch_id: string;
  readonly group_id: string;
  /** By sample index. */
  readonly episode_ids: readonly string[];
  readonly task_key: string;
  readonly task_ref: string;
  readonly lane: Lane;
  readonly generation: number;
  /** The group of generation 0, and the one this one replaces; both are `group_id` itself in generation 0. */
  readonly base_group_id: string;
  readonly previous_group_id: string;
  readonly superseded: readonly string[];
  readonly carried: readonly CarriedMember[];
}

/** What was there when a group was to be fenced. */
export interface KnownGroup {
  readonly task_ref: string;
  readonly size: number;
  /** Newest generation of the group; the state below is that of the group asked for. */
  readonly latest: number;
  readonly closed: boolean;
  /** Id of its entry in the run's stream of groups, when closed. */
  readonly entry: string;
  /** One text a sample, when closed: a status letter (C, T, F, X, or M for missing) and the reward, if any. */
  readonly slots: readonly string[];
}

/** Fences groups in one pipeline; null for each that was made now. */
export async function fenceGroups(
  redis: Redis,
  names: QueueNames,
  groups: readonly GroupFence[],
  now: number,
): Promise<(KnownGroup | null)[]> {
  const pipeline = script.pipeline(redis);
  for (const group of groups) {
    script.queue(
      pipeline,
      [
        names.run(group.run_id),
        names.group(group.group_id),
        names.openGroups(group.run_id),
        names.group(group.base_group_id),
        names.group(group.previous_group_id),
      ],
      [
        now,
        names.episode(''),
        group.group_id,
        group.episode_ids.join(','),
        group.run_id,
        group.batch_id,
        group.task_key,
        group.task_ref,
        group.lane,
        group.generation,
        JSON.stringify(group.superseded),
        ...group.carried.flatMap((member) => [
          member.sample_index,
          member.letter,
          member.reward ?? '',
          member.sampled_tokens,
          member.member,
        ]),
      ],
    );
  }
  return (await replies<Reply>(pipeline)).map((reply) =>
    reply[0] === 'new'
      ? null
      : {
          task_ref: reply[1],
          size: Number(reply[2]),
          latest: Number(reply[3]),
          closed: reply[4] === 'closed',
          entry: reply[5],
          slots: reply[6] === '' ? [] : reply[6].split(','),
        },
  );
}
