import type { Redis } from 'ioredis';
import { groupId } from '../../contracts/index.ts';
import type { ClosedGroup } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<readonly [number, number]>('ack-group', 3);

/** Acknowledges a closed group for a reader; tells how many payloads that freed. See ack-group.lua. */
export async function acknowledgeGroup(
  redis: Redis,
  names: QueueNames,
  reader: string,
  entry_id: string,
  group: ClosedGroup,
): Promise<{ acknowledged: boolean; freed: number }> {
  const { run_id, batch_id, task_key, generation } = group;
  const [acknowledged, freed] = await script.run(
    redis,
    [
      names.groups(run_id),
      names.group(groupId(run_id, batch_id, task_key)),
      names.group(groupId(run_id, batch_id, task_key, generation + 1)),
    ],
    [
      reader,
      entry_id,
      generation,
      ...group.results.flatMap(({ summary, payload }) =>
        payload === null ? [] : [summary.episode_id, payload],
      ),
    ],
  );
  return { acknowledged: acknowledged > 0, freed };
}
