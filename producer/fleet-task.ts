import { readSignature, VerifierSourceError } from '../src/fleet/verifier/signature.ts';
import {
  disagreement,
  findField,
  isObject,
  withoutAliases,
  type AliasedField,
  type FoundField,
} from './fleet-aliases.ts';
import type { FieldFault } from './field-fault.ts';

/** A fleet task under the names of the normal form. */
export interface FleetFields {
  readonly fields: ReadonlyMap<string, unknown>;
  readonly faults: readonly FieldFault[];
  /** Field of the normal form -> its name in the file, where that is another one. */
  readonly names: ReadonlyMap<string, string>;
}

type Raw = ReadonlyMap<string, unknown>;

/** The vendor's way to say that a verifier's code could not be read. */
const codeError = '<error loading code:';

function isBlank(value: unknown): boolean {
  return typeof value === 'string' && value.trim() === '';
}

function unlessBlank(value: unknown): unknown {
  return isBlank(value) ? null : value;
}

/** As the vendor's SDK reads versions: `1.2.5` is `v1.2.5`, and `None` is what Python writes for nothing. */
function version(value: unknown): unknown {
  if (isBlank(value) || value === 'None') return null;
  return typeof value === 'string' && /^\d/.test(value) ? `v${value}` : value;
}

function code(value: unknown): unknown {
  return typeof value === 'string' && value.trimStart().startsWith(codeError) ? null : unlessBlank(value);
}

function variables(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return isBlank(value) ? null : (JSON.parse(value) as unknown);
  } catch {
    return value;
  }
}

/** Collects the fields of one task. */
class Reading {
  readonly #raw: Raw;
  readonly fields: Map<string, unknown>;
  readonly faults: FieldFault[] = [];
  readonly names = new Map<string, string>();

  constructor(raw: Raw) {
    this.#raw = raw;
    this.fields = withoutAliases(raw);
  }

  /** What the file says of a field in its normal form; `read` gives null for a value that says nothing. */
  find(field: AliasedField, read: (value: unknown) => unknown): readonly FoundField[] {
    const found = findField(this.#raw, field);
    if (found[0] !== undefined) this.names.set(field, found[0].name);
    return found
      .map(({ name, value }) => ({ name, value: read(value) }))
      .filter(({ value }) => value !== null);
  }

  /** The first value found is the field's; another one beside it is a fault, unless there is one already. */
  settle(field: AliasedField, found: readonly FoundField[], noun = 'value'): void {
    const [first] = found;
    if (first === undefined) return;
    this.names.set(field, first.name);
    this.fields.set(field, first.value);
    const fault = disagreement(found, noun);
    if (fault !== null) this.faults.push(fault);
  }

  take(field: AliasedField, read: (value: unknown) => unknown = (value) => value): void {
    this.settle(field, this.find(field, read));
  }

  refuse(field: AliasedField, reason: string): void {
    this.faults.push({ field: this.names.get(field) ?? field, reason });
  }
}

/** A key may have its version in it, behind its first colon. */
function takeKey(reading: Reading, field: 'env_key' | 'data_key', versionField: AliasedField): void {
  const keys: FoundField[] = [];
  const versions: FoundField[] = [];
  for (const { name, value } of reading.find(field, unlessBlank)) {
    const colon = typeof value === 'string' ? value.indexOf(':') : -1;
    if (colon === 0) {
      reading.refuse(field, 'must have a name before its colon');
      return;
    }
    keys.push({ name, value: colon === -1 ? value : (value as string).slice(0, colon) });
    const inside = colon === -1 ? null : version((value as string).slice(colon + 1));
    if (inside !== null) versions.push({ name, value: inside });
  }
  versions.push(...reading.find(versionField, version));
  const before = reading.faults.length;
  reading.settle(field, keys);
  if (reading.faults.length === before) reading.settle(versionField, versions, 'version');
}

function takeVariables(reading: Reading): void {
  reading.take('env_variables', variables);
  const value = reading.fields.get('env_variables');
  if (value === undefined || isObject(value)) return;
  reading.fields.delete('env_variables');
  reading.refuse('env_variables', 'must be an object, or the JSON text of one');
}

function takeVerifier(reading: Reading, raw: Raw): void {
  reading.take('verifier_id', unlessBlank);
  reading.take('verifier_runtime_version', unlessBlank);
  reading.take('verifier_code', code);
  const source = reading.fields.get('verifier_code');
  if (typeof source === 'string') {
    try {
      readSignature(source);
    } catch (fault) {
      if (!(fault instanceof VerifierSourceError)) throw fault;
      reading.refuse('verifier_code', fault.problem);
    }
  } else if (source === undefined && !reading.fields.has('verifier_id')) {
    const [found] = findField(raw, 'verifier_code');
    const state = found === undefined ? 'is missing' : isBlank(found.value) ? 'is empty' : 'holds an error';
    reading.refuse('verifier_code', `${state}, and there is no verifier_id: nothing could grade the task`);
  }
}

/**
 * Reads a fleet task in any of its exported shapes: every name a field may have, versions inside of keys, environment
 * variables as JSON text. Names of one thing that say different things are a fault, and so is a verifier that nobody
 * could call.
 */
export function readFleetFields(raw: Raw): FleetFields {
  const reading = new Reading(raw);
  reading.take('task_key');
  reading.take('modality');
  takeVariables(reading);
  takeKey(reading, 'env_key', 'env_version');
  takeKey(reading, 'data_key', 'data_version');
  if (reading.fields.has('data_version') && !reading.fields.has('data_key')) {
    reading.refuse('data_version', 'means nothing without a data_key');
  }
  takeVerifier(reading, raw);
  return reading;
}
