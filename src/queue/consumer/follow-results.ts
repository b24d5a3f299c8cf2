import type { Redis } from 'ioredis';
import { deliveryField, type Delivered } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { listResults } from './list-results.ts';
import { compareIds, decodeRead, type StreamEntry } from './stream-entries.ts';

export interface FollowOptions {
  readonly run_id: string;
  /** Cursor of the last result that was taken. Default: from the beginning. */
  readonly from?: string;
  /** Ends the iteration. */
  readonly signal?: AbortSignal;
  /**
   * Asked about once a second, before a look for further results: when it says true and there are none, the iteration
   * ends. Default: never.
   */
  readonly endWhen?: () => boolean | Promise<boolean>;
  /** Results read in one go. Default: 64. */
  readonly batch?: number;
}

/** A result, and the cursor that goes on after it. */
export interface FollowedResult extends Delivered {
  readonly cursor: string;
}

/** The stream of deliveries has dropped results that the reader has not seen: list the results instead. */
export class DeliveriesLostError extends Error {
  readonly code = 'deliveries_lost';
  constructor(run_id: string, cursor: string) {
    super(
      `results of run ${run_id} after cursor ${cursor} are no longer in its stream of deliveries; list its results`,
    );
    this.name = 'DeliveriesLostError';
  }
}

const blockMs = 1_000;

/** Entries after `cursor`, without waiting, and whether some were dropped between. */
async function readAfter(
  redis: Redis,
  key: string,
  cursor: string,
  batch: number,
): Promise<{ entries: StreamEntry<Delivered>[]; lost: boolean }> {
  const [first, read, info] = (
    (await redis
      .multi()
      .xrange(key, '-', '+', 'COUNT', 1)
      .xread('COUNT', batch, 'STREAMS', key, cursor)
      .xinfo('STREAM', key)
      .exec()) ?? []
  ).map(([, reply]) => reply) as [[string][] | undefined, unknown, unknown[] | Error | undefined];
  const firstId = first?.[0]?.[0];
  const trimmed = (): boolean => {
    if (!Array.isArray(info)) return false;
    const of = (name: string): number => Number(info[info.indexOf(name) + 1]);
    // Redis 6.2 does not count what was added; there, every stream that reached its cap may have lost its head.
    return info.includes('entries-added') ? of('entries-added') > of('length') : of('length') >= 10_000;
  };
  const lost = firstId !== undefined && compareIds(firstId, cursor) > 0 && trimmed();
  return { entries: decodeRead<Delivered>(read, deliveryField), lost };
}

/**
 * Results of a run as they are delivered. Reads are bounded, and `blocking` is a connection for this iteration alone.
 * From the beginning it yields every result, also when the stream has lost its head; from a cursor that is too old it
 * throws DeliveriesLostError.
 */
export async function* followResults(
  redis: Redis,
  blocking: Redis,
  names: QueueNames,
  options: FollowOptions,
): AsyncIterable<FollowedResult> {
  const { run_id, signal, batch = 64 } = options;
  const key = names.deliveries(run_id);
  let cursor = options.from ?? '0-0';
  let listed: Set<string> | null = null;
  let asked = 0;
  let end = false;
  while (!signal?.aborted) {
    const read = await readAfter(redis, key, cursor, batch);
    if (read.lost) {
      if (cursor !== '0-0') throw new DeliveriesLostError(run_id, cursor);
      // Before the list is read: what is delivered meanwhile is then read from the stream as well.
      const [latest] = await redis.xrevrange(key, '+', '-', 'COUNT', 1);
      cursor = latest?.[0] ?? cursor;
      listed = new Set();
      for await (const result of listResults(redis, names, run_id)) {
        if (signal?.aborted) return;
        listed.add(result.summary.episode_id);
        yield { ...result, cursor };
      }
      continue;
    }
    let { entries } = read;
    if (entries.length === 0) {
      if (end) return;
      if (Date.now() - asked >= blockMs && options.endWhen !== undefined) {
        asked = Date.now();
        end = await options.endWhen();
        if (end) continue;
      }
      entries = decodeRead<Delivered>(
        await blocking.xread('COUNT', batch, 'BLOCK', blockMs, 'STREAMS', key, cursor),
        deliveryField,
      );
    }
    for (const { id, value } of entries) {
      if (signal?.aborted) return;
      cursor = id;
      // Delivered while the list was read: it stands in both.
      if (listed?.delete(value.summary.episode_id)) continue;
      yield { ...value, cursor };
    }
  }
}
