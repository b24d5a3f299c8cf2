import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { IgnoreRules } from './ignore-rules.ts';
import { walk, type FoundFile, type Untakable } from './walk.ts';

/** Bytes of all files of one task together: they are kept in Redis while its run is. */
export const largestTask = 8 * 2 ** 20;
/** Files and directories of one of its directories. */
export const mostEntries = 5_000;

/** Where in a task's directory its parts are. Source: Harbor's task format. */
export const parts = {
  config: 'task.toml',
  instruction: 'instruction.md',
  environment: 'environment',
  tests: 'tests',
  /** What the agent is to remember from before; not every task has it. */
  trajectory: 'trajectory.json',
  compose: 'environment/docker-compose.yaml',
} as const;

/** Rules about which files of `tests/` are taken. */
export const harborIgnore = '.harborignore';

async function textOr(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return null;
  }
}

/** The ignore rules of a task's build context; the Dockerfile's own go before those of the directory, as for Docker. */
export async function contextRules(task: string): Promise<IgnoreRules> {
  const at = join(task, parts.environment);
  return new IgnoreRules(
    (await textOr(join(at, 'Dockerfile.dockerignore'))) ?? (await textOr(join(at, '.dockerignore'))) ?? '',
  );
}

/** The build context. The Dockerfile and the rules are in it even where the rules leave them out: Docker reads them first. */
export async function* contextFiles(task: string): AsyncIterable<FoundFile | Untakable> {
  const rules = await contextRules(task);
  const directory = join(task, parts.environment);
  yield* walk(directory, {
    within: directory,
    most: mostEntries,
    leaveOut: (path, isDirectory) =>
      path !== 'Dockerfile' &&
      path !== '.dockerignore' &&
      rules.leavesOut(path) &&
      (!isDirectory || rules.takesNothingBack),
  });
}

/** The tests. Their ignore rules are no test, and left out unless `all` are wanted. */
export async function* testFiles(task: string, all = false): AsyncIterable<FoundFile | Untakable> {
  yield* walk(join(task, parts.tests), {
    within: task,
    most: mostEntries,
    leaveOut: (path, isDirectory) => !all && !isDirectory && path.split('/').at(-1) === harborIgnore,
  });
}
