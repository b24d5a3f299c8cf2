import type { Redis } from 'ioredis';
import { laneSchema, type Status } from '../contracts/index.ts';
import type { LaneCounts, RunStatus } from './api.ts';
import type { JobQueues } from './job-queues.ts';
import type { QueueNames } from './names.ts';
import { parseSettings, runSettingsSchema } from './run-settings.ts';

/** Status of a run from the counters its scripts keep: no scan, whatever its size. null: there is no such run. */
export async function readRunStatus(
  redis: Redis,
  names: QueueNames,
  run_id: string,
): Promise<RunStatus | null> {
  const [hash, batches] = await Promise.all([
    redis.hgetall(names.run(run_id)),
    redis.smembers(names.batches(run_id)),
  ]);
  if (hash['settings'] === undefined) return null;
  const count = (field: string): number => Number(hash[field] ?? 0);
  const expected = count('episodes');
  const running = count('running');
  const published = count('published');
  const delivered = count('delivered');
  const missing = count('n:M');
  const scored = count('scored');
  const by_status: Record<Status, number> = {
    completed: count('n:C'),
    truncated: count('n:T'),
    failed: count('n:F'),
    cancelled: count('n:X'),
  };
  return {
    run_id,
    state: hash['paused_at'] !== undefined ? 'paused' : hash['closed_at'] !== undefined ? 'closed' : 'open',
    cancelled: hash['ended'] !== undefined,
    created_at: count('created_at'),
    settings: parseSettings(runSettingsSchema, JSON.parse(hash['settings']), `run ${run_id}`),
    batches: batches.sort(),
    groups: { expected: count('groups'), closed: count('closed_groups') },
    episodes: {
      expected,
      queued: Math.max(0, expected - running - published - delivered - missing),
      running,
      published,
      delivered,
      missing,
    },
    by_status,
    scored,
    reward_mean: scored === 0 ? null : count('reward_sum') / scored,
    retries: count('retries'),
    sampled_tokens: count('sampled_tokens'),
    done: delivered + missing >= expected,
  };
}

/** Jobs of every lane. */
export async function countLanes(jobs: JobQueues): Promise<LaneCounts[]> {
  return Promise.all(
    laneSchema.options.map(async (lane) => {
      const counts = await jobs.lane(lane).getJobCounts('wait', 'prioritized', 'active', 'delayed');
      const of = (state: string): number => counts[state] ?? 0;
      return {
        lane,
        waiting: of('wait') + of('prioritized'),
        active: of('active'),
        delayed: of('delayed'),
      };
    }),
  );
}
