import type { Redis } from 'ioredis';
import type { ResultSummary } from '../contracts/index.ts';
import { crashPoint } from '../observe/index.ts';
import type { JobQueues } from './job-queues.ts';
import { publishResult, type Published } from './lua/publish.ts';
import type { QueueNames } from './names.ts';

/** Steps 2 to 4 of the publish protocol (design.md 4). */
export class Publisher {
  readonly #redis: Redis;
  readonly #names: QueueNames;
  readonly #jobs: JobQueues;
  readonly #payloadTtlMs: number;

  constructor(redis: Redis, names: QueueNames, jobs: JobQueues, payloadTtlMs: number) {
    this.#redis = redis;
    this.#names = names;
    this.#jobs = jobs;
    this.#payloadTtlMs = payloadTtlMs;
  }

  /**
   * Stores the payload, publishes, and adds the result job; publish.lua deletes a loser's payload. With `guarded`, a
   * flag that ended the episode wins: the reply then is `ended` and nothing is published. `nonce` names this one result:
   * after a broken connection both commands may be sent again.
   */
  async publish(result: {
    readonly summary: ResultSummary;
    readonly payload: Uint8Array | null;
    readonly nonce: string;
    readonly guarded: boolean;
  }): Promise<Published> {
    const { summary, payload, nonce, guarded } = result;
    const key = this.#names.payload(summary.episode_id, nonce);
    crashPoint('payload.store:before');
    // Both commands go out in one round trip; publish.lua finds out whether the payload is there. NX: sent a second time,
    // it would give a payload that is published by now its TTL back.
    const stored =
      payload === null
        ? Promise.resolve(null)
        : this.#redis
            .set(
              key,
              Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
              'PX',
              this.#payloadTtlMs,
              'NX',
            )
            .then(
              () => null,
              (error: Error) => error,
            );
    crashPoint('payload.store:after');
    crashPoint('publish:before');
    const [reply, storeError] = await Promise.all([
      publishResult(this.#redis, this.#names, { summary, nonce, payload: payload !== null, guarded }),
      stored,
    ]);
    crashPoint('publish:after');
    if (reply[0] === 'no_payload' && storeError !== null) throw storeError;
    if (reply[0] === 'published') await this.#announce(summary);
    // The winner may have died before it added the result job.
    if (reply[0] === 'dup') await this.announce(summary.episode_id);
    return reply;
  }

  /** Adds the result job of an episode that is published already; does nothing when it has been delivered. */
  async announce(episode_id: string): Promise<void> {
    const text = await this.#redis.hget(this.#names.episode(episode_id), 'summary');
    if (text !== null) await this.#announce(JSON.parse(text) as ResultSummary);
  }

  async #announce(summary: ResultSummary): Promise<void> {
    crashPoint('results.add:before');
    await this.#jobs.addResult(summary);
    crashPoint('results.add:after');
  }
}
