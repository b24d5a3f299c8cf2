/** A tool's arguments, or what is wrong with them. */
export type CallArguments = { readonly args: Readonly<Record<string, unknown>> } | { readonly fault: string };

export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Arguments as policies write them: JSON text of an object, or the object itself. None at all stands for an object
 * without members, since some engines leave out the arguments of a tool that takes none.
 */
export function readArguments(written: unknown): CallArguments {
  let value = written;
  if (typeof written === 'string') {
    if (written.trim() === '') return { args: {} };
    try {
      value = JSON.parse(written) as unknown;
    } catch (error) {
      return { fault: `its arguments are not valid JSON (${(error as Error).message})` };
    }
  }
  if (value === undefined || value === null) return { args: {} };
  if (!isJsonObject(value)) return { fault: 'its arguments are not a JSON object' };
  return { args: value };
}
