import type { z } from 'zod';
import { claudeCodeTaskSchema, fleetTaskSchema, type Task, type TaskKind } from '../src/contracts/index.ts';
import type { FieldFault } from './field-fault.ts';
import { environmentAliases, fleetNames, isObject } from './fleet-aliases.ts';
import { readFleetFields, type FleetFields } from './fleet-task.ts';

export type Normalised =
  /** `keyField` is the name that `task_key` has in the file. */
  | { readonly task: Task; readonly keyField: string }
  /** `key` is null where there is none. */
  | { readonly key: string | null; readonly faults: readonly FieldFault[] };

const schemas = { claude_code: claudeCodeTaskSchema, fleet: fleetTaskSchema };
const kinds = Object.keys(schemas) as TaskKind[];
const fields = {
  claude_code: new Set(Object.keys(claudeCodeTaskSchema.shape)),
  fleet: new Set(Object.keys(fleetTaskSchema.shape)),
};
const claudeCodeSigns = ['sandbox', 'files', 'setup', 'verify'];

/**
 * Explicit, else fleet by its environment, else claude_code. A task that has nothing of a claude_code one, but fields of
 * a fleet one, is a fleet task that lacks its environment.
 */
function kindOf(raw: ReadonlyMap<string, unknown>): TaskKind | FieldFault {
  const given = raw.get('kind');
  if (given !== undefined) {
    return (
      kinds.find((kind) => kind === given) ?? { field: 'kind', reason: `must be one of ${kinds.join(', ')}` }
    );
  }
  const fleet = environmentAliases.find((sign) => raw.has(sign));
  const claudeCode = claudeCodeSigns.find((sign) => raw.has(sign));
  if (fleet !== undefined && claudeCode !== undefined) {
    return {
      field: 'kind',
      reason: `"${fleet}" is of a fleet task and "${claudeCode}" of a claude_code task; give "kind" or drop one`,
    };
  }
  if (fleet !== undefined) return 'fleet';
  return claudeCode === undefined && fleetNames.some((name) => raw.has(name)) ? 'fleet' : 'claude_code';
}

/** What a schema said, with paths such as `verify.commands`. */
export function faultsOf(error: z.ZodError): FieldFault[] {
  return error.issues.flatMap((issue): FieldFault[] => {
    const path = issue.path.map(String);
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((name) => ({
        field: [...path, name].join('.'),
        reason: 'there is no such field',
      }));
    }
    const field = path.join('.');
    if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined')) {
      return [{ field, reason: 'is missing' }];
    }
    if (issue.code === 'invalid_union') return [{ field, reason: 'has none of the forms it may have' }];
    return [{ field, reason: issue.message }];
  });
}

/** The fault under the name that its field has in the file. */
function inFile(fault: FieldFault, names: FleetFields['names']): FieldFault {
  const [first = '', ...rest] = fault.field.split('.');
  return { ...fault, field: [names.get(first) ?? first, ...rest].join('.') };
}

/**
 * The normal form of one task, defaults filled in, or every fault in it. A top-level field that is null counts as
 * absent. The fields of a fleet task may have any name that the vendor's exports give them. Fields that no kind knows go
 * to `metadata`, unless it has one of that name itself; a field of the other kind is a fault, as it would be ignored.
 */
export function normaliseTask(value: unknown): Normalised {
  try {
    return normalised(value);
  } catch (fault) {
    // JSON may be nested deeper than anything that walks it.
    if (!(fault instanceof RangeError)) throw fault;
    return { key: null, faults: [{ field: '', reason: 'is nested too deeply' }] };
  }
}

function normalised(value: unknown): Normalised {
  if (!isObject(value)) return { key: null, faults: [{ field: '', reason: 'must be an object' }] };
  const given = new Map(Object.entries(value).filter(([, field]) => field !== null));
  const kind = kindOf(given);
  const {
    fields: raw,
    names,
    faults: read,
  }: FleetFields = kind === 'fleet'
    ? readFleetFields(given)
    : { fields: given, names: new Map(), faults: [] };
  const key = raw.get('task_key');
  const refused = (...faults: FieldFault[]): Normalised => ({
    key: typeof key === 'string' ? key : null,
    faults,
  });

  if (typeof kind !== 'string') return refused(kind);
  const other = kind === 'fleet' ? 'claude_code' : 'fleet';
  const metadata = raw.get('metadata') ?? {};
  if (!isObject(metadata)) return refused({ field: 'metadata', reason: 'must be an object' });

  const faults: FieldFault[] = [...read];
  const known: [string, unknown][] = [];
  const unknown: [string, unknown][] = [];
  for (const [name, field] of raw) {
    if (fields[kind].has(name)) known.push([name, field]);
    else if (fields[other].has(name)) {
      faults.push({ field: name, reason: `is of a ${other} task, and this is a ${kind} one` });
    } else if (Object.hasOwn(metadata, name)) {
      faults.push({ field: name, reason: `stands beside "metadata.${name}"; keep one of the two` });
    } else unknown.push([name, field]);
  }
  const parsed = schemas[kind].safeParse({
    ...Object.fromEntries(known),
    kind,
    metadata: { ...metadata, ...Object.fromEntries(unknown) },
  });
  if (parsed.success && faults.length === 0) {
    return { task: parsed.data, keyField: names.get('task_key') ?? 'task_key' };
  }
  const unfit = parsed.success ? [] : faultsOf(parsed.error).map((fault) => inFile(fault, names));
  // A field that was refused above is not missing.
  const told = new Set(faults.map(({ field }) => field));
  return refused(...faults, ...unfit.filter(({ field }) => !told.has(field)));
}
