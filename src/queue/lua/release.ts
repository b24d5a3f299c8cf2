import type { Redis } from 'ioredis';
import type { EpisodeJob, Failure } from '../../contracts/index.ts';
import type { QueueNames } from '../names.ts';
import { LuaScript } from './script.ts';

const script = new LuaScript<'released' | 'settled' | 'not_mine'>('release', 2);

/** Gives a claimed episode back: with `counted`, its attempt stays counted (a retry), else it is taken back (a hand-off). */
export function releaseEpisode(
  redis: Redis,
  names: QueueNames,
  job: Pick<EpisodeJob, 'run_id' | 'episode_id'>,
  by: { nonce: string; counted: boolean; failure: Failure | null },
): Promise<'released' | 'settled' | 'not_mine'> {
  return script.run(
    redis,
    [names.run(job.run_id), names.episode(job.episode_id)],
    [by.nonce, by.counted ? '1' : '0', by.failure === null ? '' : JSON.stringify(by.failure)],
  );
}
