import { episodeJobSchemaVersion, type EpisodeJob } from '../contracts/index.ts';
import type { BatchSettings } from './run-settings.ts';

/** The job of one sample of a group: the same fields always give the same job. */
export function episodeJobOf(
  group: {
    readonly run_id: string;
    readonly batch_id: string;
    readonly group_id: string;
    readonly size: number;
    readonly task_key: string;
    readonly task_ref: string;
  },
  batch: BatchSettings,
  member: { readonly episode_id: string; readonly sample_index: number },
): EpisodeJob {
  return {
    schema: episodeJobSchemaVersion,
    run_id: group.run_id,
    batch_id: group.batch_id,
    episode_id: member.episode_id,
    group_id: group.group_id,
    group_size: group.size,
    sample_index: member.sample_index,
    task_key: group.task_key,
    task_ref: group.task_ref,
    sampling: batch.sampling,
    limits: batch.limits,
    ...(batch.deadline_at === null ? {} : { deadline_at: batch.deadline_at }),
    priority: batch.priority,
  };
}
