/** A tasks file that as a whole cannot be used. The message begins with its name, and line and column where there are some. */
export class TasksFileError extends Error {
  readonly file: string;

  constructor(
    file: string,
    problem: string,
    options?: { at?: { line: number; column: number }; cause?: unknown },
  ) {
    const place = options?.at === undefined ? '' : `:${options.at.line}:${options.at.column}`;
    super(`${file}${place}: ${problem}`, { cause: options?.cause });
    this.name = 'TasksFileError';
    this.file = file;
  }
}

/** The same for what the file system said. */
export function cannotRead(file: string, cause: unknown): TasksFileError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const known: Record<string, string> = {
    ENOENT: 'there is no such file',
    ENOTDIR: 'there is no such file',
    EACCES: 'may not be read',
    EISDIR: 'is a directory',
  };
  return new TasksFileError(file, known[code ?? ''] ?? `cannot be read: ${message}`, { cause });
}
