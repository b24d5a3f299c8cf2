import type { Redis } from 'ioredis';
import type { EpisodeJob, Lane } from '../../contracts/index.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

type Reply =
  | ['run' | 'published' | 'end' | 'paused', number]
  | ['ended', number, 'cancelled' | 'stale' | 'expired']
  | ['exhausted', number, string];
const script = new LuaScript<Reply>('claim', 4);

/** What a worker has to do with a job it took. `attempts` counts starts, the one just allowed included. */
export type Claim =
  | { readonly verdict: 'run' | 'published' | 'end' | 'paused'; readonly attempts: number }
  | {
      readonly verdict: 'ended';
      readonly attempts: number;
      readonly reason: 'cancelled' | 'stale' | 'expired';
    }
  | { readonly verdict: 'exhausted'; readonly attempts: number; readonly lastFailure: string };

/** Claims an episode for one attempt (claim.lua). */
export async function claimEpisode(
  redis: Redis,
  names: QueueNames,
  job: EpisodeJob,
  by: { nonce: string; worker: string; lane: Lane; now: number; maxAttempts: number },
): Promise<Claim> {
  const reply = await script.run(
    redis,
    [
      names.run(job.run_id),
      names.group(job.group_id),
      names.episode(job.episode_id),
      names.parked(job.run_id),
    ],
    [by.now, by.nonce, by.worker, job.deadline_at ?? '', by.maxAttempts, `${by.lane} ${job.episode_id}`],
  );
  if (reply[0] === 'ended') return { verdict: 'ended', attempts: reply[1], reason: reply[2] };
  if (reply[0] === 'exhausted') return { verdict: 'exhausted', attempts: reply[1], lastFailure: reply[2] };
  return { verdict: reply[0], attempts: reply[1] };
}
