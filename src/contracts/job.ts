import { z } from 'zod';
import { limitsSchema } from './limits.ts';
import { samplingOverridesSchema } from './sampling.ts';

/** The schema number of episode jobs this code writes and the newest it reads. */
export const episodeJobSchemaVersion = 1;

/** What travels through the queue for one episode. Small: the task body is stored once under `task_ref`. */
export const episodeJobSchema = z.object({
  schema: z.literal(episodeJobSchemaVersion),
  run_id: z.string(),
  batch_id: z.string(),
  episode_id: z.string(),
  group_id: z.string(),
  group_size: z.int().positive(),
  sample_index: z.int().nonnegative(),
  task_key: z.string(),
  /** Hash of the task's normal form. */
  task_ref: z.string(),
  sampling: samplingOverridesSchema,
  limits: limitsSchema,
  /** Epoch milliseconds after which the episode is not started any more. */
  deadline_at: z.number().optional(),
  /** Higher is sooner; 0 is the default. */
  priority: z.int(),
});
export type EpisodeJob = z.infer<typeof episodeJobSchema>;

/** Lanes are BullMQ queues: one for each kind and provider, and for grading kept final states again. */
export const laneSchema = z.enum([
  'fleet',
  'claude_code-docker',
  'claude_code-e2b',
  'claude_code-local',
  'regrade-docker',
  'regrade-e2b',
]);
export type Lane = z.infer<typeof laneSchema>;
