import type { z } from 'zod';

/** A folder that defines no usable environment: one line with file and field. */
export class EnvironmentFolderError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'EnvironmentFolderError';
  }
}

/** A path into JSON as people write it: `tools[2].steps[0].sql`. */
export function fieldAt(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    '',
  );
}

/** The first fault that zod found, in one line. */
export function firstFault(error: z.ZodError): string {
  const [issue] = error.issues;
  if (issue === undefined) return 'is not usable';
  const more = error.issues.length > 1 ? ` (and ${error.issues.length - 1} more)` : '';
  const where = fieldAt(issue.path);
  return `${where === '' ? '' : `${where}: `}${issue.message}${more}`;
}
