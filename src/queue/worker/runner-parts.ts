import type { Job } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EpisodeJob, ResultSummary } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import type { QueueNames } from '../names.ts';
import type { EpisodeProcessor } from '../processor.ts';
import type { Publisher } from '../publisher.ts';
import type { RunReader } from '../run-settings.ts';
import type { TaskReader } from '../task-store.ts';
import type { QueueTimings } from '../timings.ts';
import type { Gate } from './gate.ts';
import type { LiveEpisodes, LiveJob } from './live-episodes.ts';

/** What the runner of a worker process works with. */
export interface RunnerParts {
  readonly redis: Redis;
  readonly names: QueueNames;
  readonly log: Logger;
  readonly worker: string;
  readonly timings: QueueTimings;
  readonly maxAttempts: number;
  readonly publishSeconds: number;
  readonly process: EpisodeProcessor;
  readonly live: LiveEpisodes;
  readonly gate: Gate;
  readonly publisher: Publisher;
  readonly tasks: TaskReader;
  readonly runs: RunReader;
  /** undefined: every run's episodes are run. */
  readonly onlyRun: string | undefined;
  readonly onPublished: ((summary: ResultSummary) => void) | undefined;
}

/** What BullMQ keeps of an episode job. Small: it is copied into BullMQ's stream of events. */
export interface EpisodeReturn {
  readonly verdict: 'published' | 'dup' | 'late' | 'end';
  readonly status?: string;
  readonly stop_reason?: string;
  readonly reward?: number | null;
  readonly attempt?: number;
}

/** One job in hand: what BullMQ gave, what it says, and the copy of it that is live here. */
export interface Taken {
  readonly bull: Job;
  readonly token: string;
  readonly job: EpisodeJob;
  readonly live: LiveJob;
}
