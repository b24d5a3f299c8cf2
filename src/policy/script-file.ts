import { readFile } from 'node:fs/promises';
import jsonc from 'jsonc-parser';
import type { z } from 'zod';
import { scriptFileSchema, type Script } from './script-schema.ts';

/** A scripts file that cannot be used: one line with file and field. */
export class ScriptFileError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ScriptFileError';
  }
}

function place(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    '',
  );
}

function fault(error: z.ZodError): string {
  const [issue] = error.issues;
  if (issue === undefined) return 'is not a scripts file';
  const more = error.issues.length > 1 ? ` (and ${error.issues.length - 1} more)` : '';
  const where = place(issue.path);
  return `${where === '' ? '' : `${where}: `}${issue.message}${more}`;
}

/** Checks scripts that were not read from a file. `source` stands in front of a fault. */
export function parseScripts(value: unknown, source = 'scripts'): Script[] {
  const result = scriptFileSchema.safeParse(value);
  if (!result.success) throw new ScriptFileError(`${source}: ${fault(result.error)}`);
  return result.data.scripts;
}

/** Where JSON is broken; JSON.parse says it for some faults only. */
function lineAndColumn(text: string): string {
  const errors: jsonc.ParseError[] = [];
  jsonc.parse(text, errors, { disallowComments: true });
  const before = text.slice(0, errors[0]?.offset ?? 0).split('\n');
  return `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
}

/** Reads a scripts file. Throws `ScriptFileError`. */
export async function loadScripts(path: string): Promise<Script[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new ScriptFileError(`${path}: cannot be read (${(cause as NodeJS.ErrnoException).code})`, cause);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ScriptFileError(`${path}: is not JSON: ${lineAndColumn(text)}`, cause);
  }
  return parseScripts(value, path);
}
