import { isDeepStrictEqual } from 'node:util';
import type { FieldFault } from './field-fault.ts';

/** Where a value may stand in a task as it is exported; a dot leads into an object. */
const aliases = {
  task_key: ['task_key', 'key', 'id'],
  env_key: ['env_key', 'env_id', 'environment_id'],
  env_version: ['env_version', 'version'],
  data_key: ['data_key', 'data_id'],
  data_version: ['data_version'],
  env_variables: ['env_variables'],
  verifier_code: ['verifier_code', 'verifier_func', 'verifier.code'],
  verifier_id: ['verifier_id', 'verifier.verifier_id', 'metadata.verifier.verifier_id'],
  verifier_runtime_version: ['verifier_runtime_version', 'metadata.verifier_runtime_version'],
  modality: ['modality', 'task_modality'],
} as const;
export type AliasedField = keyof typeof aliases;
const aliasedFields = Object.keys(aliases) as AliasedField[];

/** By these a task that does not say its kind is a fleet task. */
export const environmentAliases: readonly string[] = aliases.env_key;
/** Top-level names that only a fleet task has. `key`, `id` and `version` may be anybody's metadata. */
export const fleetNames: readonly string[] = [
  ...aliasedFields.flatMap((field) => (field === 'task_key' ? [] : aliases[field])),
  'verifier',
].filter((name) => !name.includes('.') && name !== 'version');

/** One value with the name it has in the file. */
export interface FoundField {
  readonly name: string;
  readonly value: unknown;
}

type Fields = ReadonlyMap<string, unknown>;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function valueAt(raw: Fields, path: string): unknown {
  const [first = '', ...rest] = path.split('.');
  let value = raw.get(first);
  for (const part of rest) value = isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  return value;
}

/** What the file says of one field, in the order in which the names are asked; null counts as nothing. */
export function findField(raw: Fields, field: AliasedField): FoundField[] {
  return aliases[field]
    .map((name) => ({ name, value: valueAt(raw, name) }))
    .filter(({ value }) => value !== undefined && value !== null);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** The fault when names of one thing say different things. `noun` is what they say. */
export function disagreement(found: readonly FoundField[], noun: string): FieldFault | null {
  const [first, ...others] = found;
  const other = others.find(({ value }) => !isDeepStrictEqual(first?.value, value));
  if (first === undefined || other === undefined) return null;
  return {
    field: first.name,
    reason: `has the ${noun} ${shown(first.value)}, and "${other.name}" has ${shown(other.value)}; keep one of the two`,
  };
}

/**
 * The task's fields that are no name of an aliased one. What else stands in `verifier` goes to `metadata.verifier`, what
 * that has already comes first; `metadata` stays as it is otherwise.
 */
export function withoutAliases(raw: Fields): Map<string, unknown> {
  const taken = new Set<string>(aliasedFields.flatMap((field) => aliases[field]));
  const rest = new Map([...raw].filter(([name]) => !taken.has(name)));
  const verifier = rest.get('verifier');
  if (!isObject(verifier)) return rest;
  rest.delete('verifier');
  const { code: _code, verifier_id: _id, ...about } = verifier;
  if (Object.keys(about).length === 0) return rest;
  const metadata = rest.get('metadata') ?? {};
  if (!isObject(metadata)) return rest;
  const known = metadata['verifier'] ?? {};
  return rest.set('metadata', {
    ...metadata,
    verifier: isObject(known) ? { ...about, ...known } : known,
  });
}
