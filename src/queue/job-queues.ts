import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EpisodeJob, Lane, ResultSummary } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import { episodeQueue, resultsQueue, type QueueNames } from './names.ts';
import { bullPriority } from './priority.ts';

/** Data of a result job: the summary is for people who look at the queue, delivery takes the one in the episode's hash. */
export interface ResultJob {
  readonly run_id: string;
  readonly group_id: string;
  readonly episode_id: string;
  readonly summary: ResultSummary;
}

/** What BullMQ keeps of finished jobs: enough to look at, bounded by number and by age (seconds). */
export const keepFinished = { count: 500, age: 24 * 3600 };

/** BullMQ copies every event into a stream; nobody here reads it, so it is kept small. */
const eventsKept = 200;

/** BullMQ's queues on one connection, opened when first used. */
export class JobQueues {
  readonly #redis: Redis;
  readonly #names: QueueNames;
  readonly #log: Logger;
  readonly #open = new Map<string, Queue>();

  constructor(redis: Redis, names: QueueNames, log: Logger) {
    this.#redis = redis;
    this.#names = names;
    this.#log = log;
  }

  lane(lane: Lane): Queue {
    return this.#queue(episodeQueue(lane));
  }

  get results(): Queue {
    return this.#queue(resultsQueue);
  }

  #queue(name: string): Queue {
    let queue = this.#open.get(name);
    if (queue === undefined) {
      queue = new Queue(name, {
        connection: this.#redis,
        prefix: this.#names.prefix,
        streams: { events: { maxLen: eventsKept } },
      });
      queue.on('error', (error) => this.#log.warn({ err: error.message, queue: name }, 'queue'));
      this.#open.set(name, queue);
    }
    return queue;
  }

  /** Adds episode jobs to one lane; a job that is there stays as it is. */
  async addEpisodes(lane: Lane, jobs: readonly EpisodeJob[]): Promise<void> {
    if (jobs.length === 0) return;
    await this.lane(lane).addBulk(
      jobs.map((data) => ({
        name: 'episode',
        data,
        opts: { jobId: data.episode_id, priority: bullPriority(data.priority) },
      })),
    );
  }

  /** Adds the result job of a published episode; a job that is there stays as it is. */
  async addResult(summary: ResultSummary): Promise<void> {
    const { run_id, group_id, episode_id } = summary;
    const data: ResultJob = { run_id, group_id, episode_id, summary };
    await this.results.add('result', data, { jobId: episode_id });
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(open.map((queue) => queue.close()));
  }
}
