import { ChatError } from '../chat.ts';

export type Json = Readonly<Record<string, unknown>>;

/** A refusal that names the field. */
export function badField(path: string, what: string): ChatError {
  return new ChatError('bad_request', `${path}: ${what}`);
}

export function asObject(value: unknown, path: string): Json {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badField(path, 'must be an object');
  }
  return value as Json;
}

export function asList(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw badField(path, 'must be a list');
  return value;
}

export function asString(value: unknown, path: string): string {
  if (typeof value !== 'string') throw badField(path, 'must be a string');
  return value;
}

/** A positive whole number; undefined when absent or null. */
export function optionalCount(value: unknown, path: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    throw badField(path, 'must be a positive whole number');
  }
  return value;
}

export function optionalStrings(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const list = typeof value === 'string' ? [value] : asList(value, path);
  if (list.length === 0) return undefined;
  return list.map((item, at) => asString(item, `${path}.${at}`));
}
