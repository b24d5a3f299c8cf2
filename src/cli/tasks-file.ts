import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { basename, extname, resolve } from 'node:path';
import { describeFault, tasksContent, TasksFileError, type TasksReport } from '../../producer/index.ts';
import { BadUse } from './bad-use.ts';

/**
 * The run a command means when it names none: the same file with the same content, samples and sandbox gives the same
 * run, so that the same command again resumes.
 */
export async function defaultRunId(file: string, ...rest: readonly (string | number)[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(rest));
  let directory = false;
  try {
    const found = await stat(file);
    directory = found.isDirectory();
    // A device has no end, and a pipe may have nobody who writes into it.
    if (!found.isFile() && !directory) throw new BadUse(`${file}: is not a regular file`);
    for await (const chunk of tasksContent(file)) hash.update(chunk);
  } catch (error) {
    if (error instanceof BadUse || error instanceof TasksFileError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new BadUse(`${file}: ${code === 'ENOENT' ? 'there is no such file' : String(error)}`, {
      cause: error,
    });
  }
  // Tasks in a directory: `.` has a name too, and what follows a dot in it is no extension.
  const stem = (directory ? basename(resolve(file)) : basename(file, extname(file)))
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 60);
  return `${stem}-${hash.digest('hex').slice(0, 8)}`;
}

/** Says what was wrong with single tasks, and what of others is left aside, a line each. */
export function printFaults(report: TasksReport, stream: NodeJS.WritableStream): void {
  for (const warning of report.warnings) stream.write(`warning: ${describeFault(warning)}\n`);
  for (const fault of report.faults) stream.write(`${describeFault(fault)}\n`);
  if (report.refused > 0) stream.write(`${report.refused} of ${report.read} tasks left out\n`);
}
