import type { Redis } from 'ioredis';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<string>('set-policy', 1);

/** Sets what is given of the policy's state; gives the whole state as JSON. See set-policy.lua. */
export function changePolicy(
  redis: Redis,
  names: QueueNames,
  change: { version?: number; paused?: boolean; replica?: string; in_flight?: 'drain' | 'abort' },
  now: number,
): Promise<string> {
  const paused = change.paused === undefined ? '' : change.paused ? '1' : '0';
  return script.run(
    redis,
    [names.policy],
    [
      now,
      change.version ?? '',
      paused,
      change.replica ?? '',
      names.controlChannel,
      change.in_flight === 'abort' ? '1' : '',
    ],
  );
}
