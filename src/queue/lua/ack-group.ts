import type { Redis } from 'ioredis';
import { groupId } from '../../contracts/index.ts';
import type { ClosedGroup } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

const fixedKeys = 3;
// The number of payloads is that of the group's results, and a script has a fixed number of keys: one script a number.
const scripts = new Map<number, LuaScript<readonly [number, number]>>();

/** Acknowledges a closed group for a reader; tells how many payloads that freed. See ack-group.lua. */
export async function acknowledgeGroup(
  redis: Redis,
  names: QueueNames,
  reader: string,
  entry_id: string,
  group: ClosedGroup,
): Promise<{ acknowledged: boolean; freed: number }> {
  const { run_id, batch_id, task_key, generation } = group;
  const held = group.results.filter((result) => result.payload !== null);
  const script = scripts.get(held.length) ?? new LuaScript('ack-group', fixedKeys + held.length);
  scripts.set(held.length, script);
  const [acked, freed] = await script.run(
    redis,
    [
      names.groups(run_id),
      names.group(groupId(run_id, batch_id, task_key)),
      names.group(groupId(run_id, batch_id, task_key, generation + 1)),
      ...held.map((result) => result.payload!),
    ],
    [reader, entry_id, generation, ...held.map((result) => result.summary.episode_id)],
  );
  return { acknowledged: acked > 0, freed };
}
