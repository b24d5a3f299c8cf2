import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { taskContent } from './readers/harbor/task-content.ts';

/**
 * The bytes that make a tasks file what it is, for a hash: the file's own, or for a directory those of what its tasks are
 * read from. Rejects with what the file system says.
 */
export async function* tasksContent(path: string, signal?: AbortSignal): AsyncIterable<Buffer> {
  if ((await stat(path)).isDirectory()) yield* taskContent(path, signal);
  else yield* createReadStream(path, signal === undefined ? {} : { signal }) as AsyncIterable<Buffer>;
}
