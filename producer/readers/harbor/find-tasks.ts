import { readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { cannotRead } from '../../tasks-file-error.ts';
import { parts } from './task-files.ts';

/** How far below a folder its tasks are looked for: `folder/task` and `folder/group/task`. */
const deepest = 2;

export interface FoundTask {
  readonly path: string;
  /** Relative to the folder that was given; '' for the folder itself. */
  readonly below: string;
  /** The last name of its path. */
  readonly name: string;
}

async function kindOf(path: string): Promise<'file' | 'directory' | null> {
  try {
    const found = await stat(path);
    return found.isDirectory() ? 'directory' : 'file';
  } catch {
    return null;
  }
}

/** A directory with a task.toml, or one that has so much of a task that it is not meant to be anything else. */
async function isTask(path: string): Promise<boolean> {
  if ((await kindOf(join(path, parts.config))) !== null) return true;
  if ((await kindOf(join(path, 'task.yaml'))) === 'file') return true;
  if ((await kindOf(join(path, parts.instruction))) !== 'file') return false;
  const [environment, tests] = await Promise.all([
    kindOf(join(path, parts.environment)),
    kindOf(join(path, parts.tests)),
  ]);
  return environment === 'directory' || tests === 'directory';
}

async function directoriesIn(path: string): Promise<string[]> {
  const names = (await readdir(path, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => name)
    // Version control, caches of tools.
    .filter((name) => !name.startsWith('.') && name !== 'node_modules')
    .sort();
  const kinds = await Promise.all(names.map((name) => kindOf(join(path, name))));
  return names.filter((_, index) => kinds[index] === 'directory');
}

async function* below(path: string, under: string, depth: number): AsyncIterable<FoundTask> {
  if (await isTask(path)) {
    yield { path, below: under, name: basename(resolve(path)) };
    return;
  }
  if (depth === deepest) return;
  for (const name of await directoriesIn(path)) {
    yield* below(join(path, name), under === '' ? name : `${under}/${name}`, depth + 1);
  }
}

/** The Harbor tasks at a path: itself, or those one or two levels below, ordered by name. @throws TasksFileError */
export async function* findTasks(path: string): AsyncIterable<FoundTask> {
  try {
    yield* below(path, '', 0);
  } catch (fault) {
    throw cannotRead(path, fault);
  }
}
