import { createHash } from 'node:crypto';

/** A short stable hash of parts that keeps their boundaries: no two different lists of parts share their text. */
function digest(parts: readonly (string | number)[], length: number): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, length);
}

/**
 * Deterministic id of an episode: the same (run, batch, task, sample, generation) always has the same id. It has no
 * `:` and is never only digits, as BullMQ asks of a job id. `generation` counts `--retry-failed`, from 0.
 */
export function episodeId(
  run: string,
  batch: string,
  taskKey: string,
  sample: number,
  generation = 0,
): string {
  return `e${digest(generation === 0 ? [run, batch, taskKey, sample] : [run, batch, taskKey, sample, generation], 24)}`;
}

/** Deterministic id of a group: all samples of one task in one batch. */
export function groupId(run: string, batch: string, taskKey: string, generation = 0): string {
  return `g${digest(generation === 0 ? [run, batch, taskKey] : [run, batch, taskKey, generation], 24)}`;
}

/** JSON with sorted object keys: the same value always has the same text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : item,
  );
}

/** The name under which a task's normal form is stored once. */
export function contentHash(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex').slice(0, 32);
}
