import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Logger } from '../observe/index.ts';
import type { ReconcileReport } from './api.ts';
import { episodeJobOf } from './episode-job-of.ts';
import { JobQueues } from './job-queues.ts';
import type { SurveyedGroup, SurveyedMember } from './lua/survey-group.ts';
import type { QueueNames } from './names.ts';
import { nullSummary } from './null-summary.ts';
import { Publisher } from './publisher.ts';
import { batchSettingsSchema, parseSettings, RunReader, type BatchSettings } from './run-settings.ts';
import { TaskReader } from './task-store.ts';
import type { QueueTimings } from './timings.ts';

export interface RepairParts {
  readonly redis: Redis;
  readonly names: QueueNames;
  readonly jobs: JobQueues;
  readonly publisher: Publisher;
  readonly tasks: TaskReader;
  readonly runs: RunReader;
  /** How long the lock of a reconciler lives, milliseconds. */
  readonly lockMs: number;
  readonly log: Logger;
}

/** The parts over a connection: the same for a command that repairs once and for the reconciler that does all the time. */
export function repairParts(
  redis: Redis,
  names: QueueNames,
  timings: QueueTimings,
  log: Logger,
): RepairParts {
  const jobs = new JobQueues(redis, names, log);
  return {
    redis,
    names,
    jobs,
    publisher: new Publisher(redis, names, jobs, timings.payloadTtlMs),
    tasks: new TaskReader(redis, names),
    runs: new RunReader(redis, names),
    lockMs: timings.reconcileLockMs,
    log,
  };
}

export type Gap = 'requeue' | 'republish' | { readonly sweep: 'cancelled' | 'stale' | 'expired' };

/** What is wrong with a member, by its state and its jobs; null: nothing, or somebody is at work on it. */
export function gapOf(member: SurveyedMember, deadline_at: number | null, now: number): Gap | null {
  switch (member.state) {
    case 'delivered':
      return null;
    case 'published':
      return member.result === 'present' ? null : 'republish';
    case 'queued':
      if (member.ended !== null) return { sweep: member.ended };
      if (deadline_at !== null && now > deadline_at) return { sweep: 'expired' };
      return member.job === 'present' ? null : 'requeue';
    case 'running':
      // A dead worker's job is found by its lock; only one that is gone or finished needs help.
      return member.job === 'present' ? null : 'requeue';
  }
}

/** Repairs the gaps of one group. Every step may be repeated: a job that is there stays, the first result wins. */
export async function repairGroup(
  parts: RepairParts,
  group: SurveyedGroup,
  batch: BatchSettings,
): Promise<Omit<ReconcileReport, 'groups'>> {
  const { jobs, publisher } = parts;
  const count = { requeued: 0, republished: 0, swept: 0 };
  for (const member of group.members) {
    const gap = gapOf(member, batch.deadline_at, Date.now());
    if (gap === null) continue;
    if (gap === 'requeue') {
      // A finished job keeps its id taken.
      if (member.job === 'finished') await jobs.lane(group.lane).remove(member.episode_id);
      await jobs.addEpisodes(group.lane, [episodeJobOf(group, batch, member)]);
      count.requeued += 1;
    } else if (gap === 'republish') {
      if (member.result === 'finished') await jobs.results.remove(member.episode_id);
      await publisher.announce(member.episode_id);
      count.republished += 1;
    } else {
      await sweep(parts, group, batch, member, gap.sweep);
      count.swept += 1;
    }
  }
  return count;
}

/** Gives an episode that will not run its null result, and takes its job away. */
async function sweep(
  parts: RepairParts,
  group: SurveyedGroup,
  batch: BatchSettings,
  member: SurveyedMember,
  ended: 'cancelled' | 'stale' | 'expired',
): Promise<void> {
  const [task, run] = await Promise.all([
    parts.tasks.read(group.task_ref).catch(() => null),
    parts.runs.read(group.run_id),
  ]);
  const now = Date.now();
  const summary = nullSummary({
    job: episodeJobOf(group, batch, member),
    task,
    attempt: member.attempts,
    runSampling: run?.sampling ?? {},
    worker: 'reconciler',
    queued_at: now,
    started_at: now,
    now,
    reason: { ended },
  });
  const nonce = randomBytes(12).toString('hex');
  await parts.publisher.publish({ summary, payload: null, nonce, guarded: false });
  // A worker may hold it by now: then it finds the result there.
  await parts.jobs
    .lane(group.lane)
    .remove(member.episode_id)
    .catch(() => 0);
}

/** Settings of a batch; null when it is unknown. */
export async function readBatch(
  redis: Redis,
  names: QueueNames,
  run_id: string,
  batch_id: string,
): Promise<BatchSettings | null> {
  const text = await redis.hget(names.batch(run_id, batch_id), 'settings');
  return text === null ? null : parseSettings(batchSettingsSchema, JSON.parse(text), `batch ${batch_id}`);
}
