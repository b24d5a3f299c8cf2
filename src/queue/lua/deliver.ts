import type { Redis } from 'ioredis';
import { deliveriesKept } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

/** See deliver.lua. */
export type DeliverReply = readonly ['delivered' | 'dup' | 'unpublished'] | readonly ['closed', string];
const script = new LuaScript<DeliverReply>('deliver', 7);

/** Moves a published result into its group and the followers' stream; closes the group with its last slot. */
export function deliverResult(
  redis: Redis,
  names: QueueNames,
  result: { run_id: string; group_id: string; episode_id: string },
  now: number,
): Promise<DeliverReply> {
  const { run_id, group_id, episode_id } = result;
  return script.run(
    redis,
    [
      names.run(run_id),
      names.group(group_id),
      names.episode(episode_id),
      names.openGroups(run_id),
      names.closedGroups(run_id),
      names.deliveries(run_id),
      names.groups(run_id),
    ],
    [group_id, now, deliveriesKept, names.episode('')],
  );
}
