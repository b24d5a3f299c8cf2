import type { Redis } from 'ioredis';
import { laneSchema } from '../contracts/index.ts';
import type { JobQueues } from './job-queues.ts';
import type { QueueNames } from './names.ts';

/** Brings the jobs that were put aside while a run was paused back at once, instead of at the end of their delay. */
export async function resumeParked(
  redis: Redis,
  names: QueueNames,
  jobs: JobQueues,
  run_id: string,
): Promise<void> {
  for (;;) {
    const members = await redis.spop(names.parked(run_id), 500);
    if (members.length === 0) return;
    await Promise.all(
      members.map(async (member) => {
        const [lane, id] = member.split(' ') as [string, string];
        const job = await jobs.lane(laneSchema.parse(lane)).getJob(id);
        // It may have come back by itself in the meantime.
        await job?.promote().catch(() => undefined);
      }),
    );
  }
}
