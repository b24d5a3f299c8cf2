import type { Redis } from 'ioredis';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<['created'] | ['exists', string, string, string]>('open-run', 2);

/** Creates a run, or tells the settings (JSON) it has and whether it was closed or cancelled before this call. */
export async function openRunRecord(
  redis: Redis,
  names: QueueNames,
  run: { run_id: string; settings: string; now: number; reopen: boolean },
): Promise<{ created: true } | { created: false; settings: string; closed: boolean; ended: boolean }> {
  const reply = await script.run(
    redis,
    [names.run(run.run_id), names.runs],
    [run.run_id, run.now, run.settings, run.reopen ? '1' : '0'],
  );
  if (reply[0] === 'created') return { created: true };
  return { created: false, settings: reply[1], closed: reply[2] === '1', ended: reply[3] === '1' };
}
