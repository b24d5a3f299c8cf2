import type { Redis } from 'ioredis';
import { groupId } from '../../contracts/index.ts';
import { groupField, type ClosedGroup, type Delivered } from '../closed-group.ts';
import type { QueueNames } from '../names.ts';
import { decodeEntries, type StreamEntry } from './stream-entries.ts';

const groupsAtOnce = 16;

/** Filled slots of groups that are still open. */
async function* openResults(redis: Redis, names: QueueNames, run_id: string): AsyncIterable<Delivered> {
  const open = await redis.smembers(names.openGroups(run_id));
  for (let at = 0; at < open.length; at += groupsAtOnce) {
    const pipeline = redis.pipeline();
    for (const group of open.slice(at, at + groupsAtOnce)) pipeline.hgetall(names.group(group));
    for (const [fault, reply] of (await pipeline.exec()) ?? []) {
      if (fault) throw fault;
      for (const [name, value] of Object.entries(reply as Record<string, string>)) {
        if (/^r\d+$/.test(name)) yield JSON.parse(value) as Delivered;
      }
    }
  }
}

/** Closed groups in the order in which they closed, without those that a newer generation took over. */
async function* closedGroups(
  redis: Redis,
  names: QueueNames,
  run_id: string,
): AsyncIterable<StreamEntry<ClosedGroup>> {
  let after = '-';
  for (;;) {
    const raw = await redis.xrange(names.groups(run_id), after, '+', 'COUNT', groupsAtOnce);
    const last = raw.at(-1);
    if (last === undefined) return;
    const entries = decodeEntries<ClosedGroup>(raw, groupField);
    const pipeline = redis.pipeline();
    for (const { value } of entries) {
      pipeline.hget(names.group(groupId(run_id, value.batch_id, value.task_key)), 'latest');
    }
    const newest = (await pipeline.exec()) ?? [];
    for (const [index, entry] of entries.entries()) {
      if (entry.value.generation >= Number(newest[index]?.[1] ?? 0)) yield entry;
    }
    after = `(${last[0]}`;
  }
}

/**
 * Every result of a run that is delivered now, each episode once, of the newest generation of each group. It needs no
 * capped stream: what the groups hold is complete. A few groups are in memory at a time.
 */
export async function* listResults(
  redis: Redis,
  names: QueueNames,
  run_id: string,
): AsyncIterable<Delivered> {
  // Open groups first: one that closes meanwhile stands in the stream of closed ones, which is read to its end.
  const seen = new Set<string>();
  for await (const result of openResults(redis, names, run_id)) {
    if (seen.has(result.summary.episode_id)) continue;
    seen.add(result.summary.episode_id);
    yield result;
  }
  for await (const { value } of closedGroups(redis, names, run_id)) {
    for (const result of value.results) {
      if (!seen.has(result.summary.episode_id)) yield result;
    }
  }
}
