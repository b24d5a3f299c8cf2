/** How often an id stands in a list. */
export function countOf(ids: Int32Array, id: number): number {
  let count = 0;
  for (const each of ids) if (each === id) count += 1;
  return count;
}

/** What stands behind the `nth` (from 1) `id`; null when there are not so many. */
export function behindNth(ids: Int32Array, id: number, nth: number): Int32Array | null {
  let at = -1;
  for (let count = 0; count < nth; count += 1) {
    at = ids.indexOf(id, at + 1);
    if (at < 0) return null;
  }
  return ids.subarray(at + 1);
}

/** How many ids two lists have in common at their beginnings. */
export function sharedStart(a: Int32Array, b: Int32Array): number {
  let shared = 0;
  while (shared < a.length && a[shared] === b[shared]) shared += 1;
  return shared;
}

/** What stands behind `id` where `longer` parts from `shorter`; null when it is not `id` that parts them. */
export function behindParting(shorter: Int32Array, longer: Int32Array, id: number): Int32Array | null {
  const shared = sharedStart(shorter, longer);
  return longer[shared] === id ? longer.subarray(shared + 1) : null;
}

/** What two lists have in common at their ends. */
export function sharedEnding(a: Int32Array, b: Int32Array): Int32Array {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a.at(-1 - length) === b.at(-1 - length)) length += 1;
  return a.subarray(a.length - length);
}

/** Whether `ids` end with `tail`. */
export function endsWith(ids: Int32Array, tail: Int32Array): boolean {
  const from = ids.length - tail.length;
  return from >= 0 && tail.every((id, at) => ids[from + at] === id);
}

export function concat(...parts: readonly (Int32Array | readonly number[])[]): Int32Array {
  const whole = new Int32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
