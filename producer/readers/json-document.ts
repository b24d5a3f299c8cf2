import { readFile, stat } from 'node:fs/promises';
import { cannotRead, TasksFileError } from '../tasks-file-error.ts';
import { parseJson } from './parse-json.ts';
import type { FileHead, FileReader, RawTask } from './task-reader.ts';

// A text in V8 has at most 2^29 - 24 characters.
const largest = 500 * 2 ** 20;

function tasksOf(path: string, value: unknown): readonly unknown[] {
  const tasks = typeof value === 'object' && value !== null && 'tasks' in value ? value.tasks : value;
  if (!Array.isArray(tasks)) {
    throw new TasksFileError(
      path,
      'must be an array of tasks, an object with an array "tasks", or JSON lines',
    );
  }
  if (tasks.length === 0) throw new TasksFileError(path, 'has no tasks');
  return tasks as unknown[];
}

/** `[task, ...]` or `{"tasks": [task, ...]}`: one JSON document, held in memory as a whole. */
export const jsonDocumentReader: FileReader = {
  name: 'JSON document',
  matches: (head: FileHead) => /^\s*[[{]/.test(head.text),
  async *read(path: string, signal?: AbortSignal): AsyncIterable<RawTask> {
    let text: string;
    try {
      if ((await stat(path)).size > largest) {
        throw new TasksFileError(path, 'is too large for one JSON document: write it as JSON lines');
      }
      const bytes = await readFile(path, signal === undefined ? {} : { signal });
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (fault) {
      if (fault instanceof TasksFileError || signal?.aborted) throw fault;
      if (fault instanceof TypeError) throw new TasksFileError(path, 'is not UTF-8 text', { cause: fault });
      throw cannotRead(path, fault);
    }
    const parsed = parseJson(text);
    if ('fault' in parsed) {
      throw new TasksFileError(path, `broken JSON: ${parsed.fault.reason}`, { at: parsed.fault });
    }
    for (const [index, value] of tasksOf(path, parsed.value).entries()) yield { index, line: null, value };
  },
};
