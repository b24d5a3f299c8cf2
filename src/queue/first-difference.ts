import { canonicalJson } from '../contracts/index.ts';

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** Path of the first field in which two JSON values differ (`sampling.temperature`); null when they are equal. */
export function firstDifference(a: unknown, b: unknown, path = ''): string | null {
  if (isObject(a) && isObject(b)) {
    for (const key of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort()) {
      const found = firstDifference(a[key], b[key], path === '' ? key : `${path}.${key}`);
      if (found !== null) return found;
    }
    return null;
  }
  return canonicalJson(a ?? null) === canonicalJson(b ?? null) ? null : path;
}

/** The value at a path that `firstDifference` gave. */
export function valueAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value);
}
