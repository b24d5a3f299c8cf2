import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
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

/** A scratch directory of a test file, for task directories that are read by themselves. */
export interface TaskPlace {
  readonly root: () => string;
  /** A new task directory in it. */
  readonly directory: (over?: Entries) => Promise<string>;
  /** The task of such a directory, with what is said about it. */
  readonly taskOf: (over: Entries) => Promise<{ readonly task: ClaudeCodeTask; readonly said: string[] }>;
  /** What is said of one that is refused. */
  readonly faultsOf: (over: Entries) => Promise<string[]>;
}

export function taskPlace(): TaskPlace {
  let root = '';
  let made = 0;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-harbor-`));
  });
  afterAll(() => rm(root, { recursive: true }));
  const directory: TaskPlace['directory'] = async (over) => writeTask(join(root, `task-${made++}`), over);
  return {
    root: () => root,
    directory,
    async taskOf(over) {
      const path = await directory(over);
      const { tasks, report } = await readAll(path);
      expect(notes(report.faults, path)).toEqual([]);
      return { task: tasks[0]!, said: notes(report.warnings, path) };
    },
    async faultsOf(over) {
      const path = await directory(over);
      const { report } = await readAll(path);
      expect(report).toMatchObject({ format: 'Harbor task directories', read: 1, loaded: 0, refused: 1 });
      return notes(report.faults, path);
    },
  };
}

export const toml = (text: string): Entries => ({ 'task.toml': text });
