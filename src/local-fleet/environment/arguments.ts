import { z } from 'zod';
import { fieldAt } from './folder-error.ts';

export type CheckedArguments =
  { readonly arguments: Readonly<Record<string, unknown>> } | { readonly error: string };
export type ArgumentCheck = (given: Readonly<Record<string, unknown>>) => CheckedArguments;

// SQLite would end a text at a NUL, and Python cannot read half a surrogate pair back.
const unstorable = /\0|\p{Surrogate}/u;

function unstorableAt(value: unknown, path: readonly PropertyKey[]): readonly PropertyKey[] | null {
  if (typeof value === 'string') return unstorable.test(value) ? path : null;
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, inner] of Object.entries(value)) {
    const found = unstorableAt(inner, [...path, Array.isArray(value) ? Number(key) : key]);
    if (found !== null) return found;
  }
  return null;
}

/** What the schema's own words for a type are, where zod's differ. */
function words(issue: z.core.$ZodIssue, given: unknown): string {
  if (issue.code === 'unrecognized_keys') return `there is no argument ${issue.keys.join(', ')}`;
  const value = issue.path.reduce<unknown>(
    (inner, step) => (inner as Record<PropertyKey, unknown> | null | undefined)?.[step],
    given,
  );
  const where = fieldAt(issue.path);
  if (value === undefined && issue.path.length > 0) return `${where} is required`;
  return `${where === '' ? '' : `${where}: `}${issue.message}`;
}

/**
 * A check of arguments against a tool's JSON Schema (draft 2020-12); defaults are filled in. The error tells a model what
 * to change. Throws for a schema that is not one.
 */
export function argumentCheck(
  inputSchema: Readonly<Record<string, unknown>> & { readonly properties: Readonly<Record<string, unknown>> },
): ArgumentCheck {
  const schema = z.fromJSONSchema(inputSchema as Parameters<typeof z.fromJSONSchema>[0]);
  const known = Object.keys(inputSchema.properties);
  return (given) => {
    const result = schema.safeParse(given);
    if (!result.success) {
      const faults = [...new Set(result.error.issues.map((issue) => words(issue, given)))];
      const unknown = result.error.issues.some(({ code }) => code === 'unrecognized_keys');
      const hint = unknown ? ` (arguments: ${known.join(', ') || 'none'})` : '';
      return { error: `Invalid arguments: ${faults.join('; ')}${hint}` };
    }
    const bad = unstorableAt(result.data, []);
    if (bad !== null)
      return { error: `Invalid arguments: ${fieldAt(bad)}: holds a NUL or half a surrogate pair` };
    return { arguments: result.data as Record<string, unknown> };
  };
}
