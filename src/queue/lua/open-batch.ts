import type { Redis } from 'ioredis';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

type Reply = ['created' | 'exists', string] | ['unknown' | 'closed' | 'ended'];
const script = new LuaScript<Reply>('open-batch', 3);

/** Creates a batch in an open run, or gives the settings (JSON) it was created with. */
export function openBatchRecord(
  redis: Redis,
  names: QueueNames,
  batch: { run_id: string; batch_id: string; settings: string; now: number },
): Promise<Reply> {
  return script.run(
    redis,
    [names.run(batch.run_id), names.batch(batch.run_id, batch.batch_id), names.batches(batch.run_id)],
    [batch.batch_id, batch.now, batch.settings],
  );
}
