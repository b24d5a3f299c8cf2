import type { Redis } from 'ioredis';
import { deliveriesKept } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

type Reply = readonly ['unknown' | 'dup'] | readonly ['closed', string];
const script = new LuaScript<Reply>('close-group', 6);

/** Closes an open group with what it has (close-group.lua). */
export function closeOpenGroup(
  redis: Redis,
  names: QueueNames,
  group: { run_id: string; group_id: string; deadline_at: number | undefined },
  now: number,
): Promise<Reply> {
  const { run_id, group_id } = group;
  return script.run(
    redis,
    [
      names.run(run_id),
      names.group(group_id),
      names.openGroups(run_id),
      names.closedGroups(run_id),
      names.deliveries(run_id),
      names.groups(run_id),
    ],
    [group_id, now, deliveriesKept, names.episode(''), group.deadline_at ?? ''],
  );
}
