import { TasksFileError } from '../../tasks-file-error.ts';
import type { RawTask, TaskReader } from '../task-reader.ts';
import { findTasks } from './find-tasks.ts';
import { readHarborTask } from './read-task.ts';

/** A Harbor task directory, or a folder of them; one task in memory at a time. */
export const harborReader: TaskReader = {
  name: 'Harbor task directories',
  async *read(path: string, signal?: AbortSignal): AsyncIterable<RawTask> {
    let index = 0;
    for await (const found of findTasks(path)) {
      signal?.throwIfAborted();
      const { key, keyField, value, notes } = await readHarborTask(found);
      const place = { index: index++, line: null, file: found.path, warnings: notes.warnings };
      yield notes.faults.length > 0 ? { ...place, key, faults: notes.faults } : { ...place, keyField, value };
    }
    if (index === 0) {
      throw new TasksFileError(
        path,
        'is a directory without a Harbor task, in it or one or two levels below',
      );
    }
  },
};
