import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readTasks, type TasksReport } from '../../../producer/index.ts';
import type { ClaudeCodeTask } from '../../../src/contracts/index.ts';

/** What stands at a path: content, a script that is executable, or a link. null: nothing. */
export type Entry = string | Uint8Array | { readonly script: string } | { readonly link: string } | null;
export type Entries = Readonly<Record<string, Entry>>;

/** A task that has all that a task must have. */
export const goodTask: Entries = {
  'task.toml': 'version = "1.0"\n',
  'instruction.md': 'Write 42 into answer.txt.\n',
  'environment/Dockerfile': 'FROM debian:bookworm\nWORKDIR /app\n',
  'tests/test.sh': { script: '#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n' },
};

async function write(path: string, entry: Entry): Promise<void> {
  if (entry === null) return;
  await mkdir(dirname(path), { recursive: true });
  if (typeof entry === 'string' || entry instanceof Uint8Array) await writeFile(path, entry);
  else if ('link' in entry) await symlink(entry.link, path);
  else {
    await writeFile(path, entry.script);
    await chmod(path, 0o755);
  }
}

/** Writes a task directory: the good one, with what is given over it. */
export async function writeTask(directory: string, over: Entries = {}): Promise<string> {
  await mkdir(directory, { recursive: true });
  for (const [path, entry] of Object.entries({ ...goodTask, ...over }))
    await write(join(directory, path), entry);
  return directory;
}

export async function readAll(
  path: string,
  options: Parameters<typeof readTasks>[1] = {},
): Promise<{ readonly tasks: readonly ClaudeCodeTask[]; readonly report: TasksReport }> {
  const reading = readTasks(path, options);
  const tasks: ClaudeCodeTask[] = [];
  for await (const task of reading) {
    if (task.kind !== 'claude_code') throw new Error(`a ${task.kind} task`);
    tasks.push(task);
  }
  return { tasks, report: reading.report };
}

/** Notes as `file: field: reason`, the file relative to `directory`. */
export function notes(list: TasksReport['faults'], directory: string): string[] {
  return list.map(
    ({ file, line, field, reason }) =>
      `${file.replace(`${directory}/`, '')}${line === null ? '' : `:${line}`}: ${field === '' ? '' : `${field}: `}${reason}`,
  );
}
