import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { describeFault, type TasksReport } from '../../producer/index.ts';
import { BadUse } from './bad-use.ts';

/**
 * The run a command means when it names none: the same file with the same content, samples and sandbox gives the same
 * run, so that the same command again resumes.
 */
export async function defaultRunId(file: string, ...rest: readonly (string | number)[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(rest));
  try {
    const found = await stat(file);
    // A device has no end, and a pipe may have nobody who writes into it.
    if (!found.isFile() && !found.isDirectory()) throw new BadUse(`${file}: is not a regular file`);
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  } catch (error) {
    if (error instanceof BadUse) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new BadUse(
      `${file}: ${code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'is a directory' : String(error)}`,
      { cause: error },
    );
  }
  const stem = basename(file, extname(file))
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 60);
  return `${stem}-${hash.digest('hex').slice(0, 8)}`;
}

/** Says what was wrong with single tasks, a line each. */
export function printFaults(report: TasksReport, stream: NodeJS.WritableStream): void {
  for (const fault of report.faults) stream.write(`${describeFault(fault)}\n`);
  if (report.refused > 0) stream.write(`${report.refused} of ${report.read} tasks left out\n`);
}
