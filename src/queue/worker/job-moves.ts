import { DelayedError, UnrecoverableError, WaitingError, type Job } from 'bullmq';
import { episodeJobSchema, episodeJobSchemaVersion, type EpisodeJob } from '../../contracts/index.ts';

/** Puts a job aside for some time; what it throws tells BullMQ that the job has been moved already. */
export async function putAside(bull: Job, token: string, delayMs: number): Promise<never> {
  await bull.moveToDelayed(Date.now() + delayMs, token);
  throw new DelayedError();
}

/** Puts a job back in its lane, where any worker may take it at once. */
export async function backToWait(bull: Job, token: string): Promise<never> {
  await bull.moveToWait(token);
  throw new WaitingError();
}

/** Whether an error only tells BullMQ that its job was moved. */
export function isMove(error: unknown): boolean {
  return error instanceof DelayedError || error instanceof WaitingError;
}

/**
 * What an episode job says; null when it is of a newer schema, which a newer worker has to run. Throws BullMQ's
 * UnrecoverableError for what is no episode job: nothing of ours writes one, so no episode waits for its result.
 */
export function readEpisodeJob(bull: Job): EpisodeJob | null {
  const data = bull.data as { schema?: unknown };
  if (typeof data.schema === 'number' && data.schema > episodeJobSchemaVersion) return null;
  const parsed = episodeJobSchema.safeParse(data);
  if (!parsed.success) throw new UnrecoverableError(`not an episode job: ${parsed.error.message}`);
  return parsed.data;
}
