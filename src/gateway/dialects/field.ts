import type { ToolDefinition } from '../../contracts/index.ts';
import { ChatError } from '../chat.ts';
import { deepestNesting, isShallow } from '../nesting.ts';

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

/** Stop strings: one or a list; undefined when there is none. An empty one would stop at once, and engines refuse it. */
export function optionalStops(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const list = typeof value === 'string' ? [value] : asList(value, path);
  if (list.length === 0) return undefined;
  return list.map((item, at) => {
    if (item === '') throw badField(`${path}.${at}`, 'must not be empty');
    return asString(item, `${path}.${at}`);
  });
}

/** A schema, which the engine is to read again, must not end it by its depth. */
export function refuseDeepNesting(value: unknown, path: string): void {
  if (!isShallow(value)) throw badField(path, `is nested more than ${deepestNesting} levels deep`);
}

/** A choice must be of a tool that the policy is told of. */
export function refuseUnknownTool(name: string, tools: readonly ToolDefinition[], path: string): void {
  if (!tools.some((tool) => tool.function.name === name)) {
    throw badField(path, `names no tool of this request: ${JSON.stringify(name)}`);
  }
}
