import type { Redis } from 'ioredis';
import type { ResultSummary } from '../../contracts/index.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

/** See publish.lua. */
export type Published =
  readonly ['published' | 'dup' | 'late' | 'no_payload'] | readonly ['ended', 'cancelled' | 'stale'];
const script = new LuaScript<Published>('publish', 4);

/** Publishes a result; `guarded` lets a flag that ended the episode win over it. */
export function publishResult(
  redis: Redis,
  names: QueueNames,
  result: { summary: ResultSummary; nonce: string; payload: boolean; guarded: boolean },
): Promise<Published> {
  const { summary, nonce } = result;
  return script.run(
    redis,
    [
      names.run(summary.run_id),
      names.group(summary.group_id),
      names.episode(summary.episode_id),
      names.payload(summary.episode_id, nonce),
    ],
    [
      nonce,
      JSON.stringify(summary),
      summary.status,
      summary.reward ?? '',
      summary.usage.completion_tokens,
      result.payload ? '1' : '0',
      result.guarded ? '1' : '0',
    ],
  );
}
