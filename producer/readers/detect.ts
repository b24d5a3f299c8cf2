import { open, stat } from 'node:fs/promises';
import { cannotRead, TasksFileError } from '../tasks-file-error.ts';
import { harborReader } from './harbor/harbor-reader.ts';
import { jsonDocumentReader } from './json-document.ts';
import { jsonLinesReader } from './json-lines.ts';
import type { FileHead, FileReader, TaskReader } from './task-reader.ts';

const headBytes = 64 * 2 ** 10;

/** In the order in which they are asked; the first that matches reads. */
const readers: readonly FileReader[] = [jsonLinesReader, jsonDocumentReader];

/** null: it is a directory. */
async function headOf(path: string): Promise<FileHead | null> {
  try {
    // Before it is opened: opening a named pipe waits for whoever writes into it.
    const found = await stat(path);
    if (found.isDirectory()) return null;
    // A pipe can be read once; a tasks file is read for its head, its hash and its tasks.
    if (!found.isFile()) throw new TasksFileError(path, 'is not a regular file');
    await using file = await open(path, 'r');
    const { bytesRead, buffer } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    const text = buffer.toString('utf8', 0, bytesRead).replace(/^\uFEFF/, '');
    return { path, text, complete: bytesRead === found.size };
  } catch (fault) {
    throw fault instanceof TasksFileError ? fault : cannotRead(path, fault);
  }
}

/** The reader of a file's format, or of a directory's. @throws TasksFileError when it is missing, empty, or of no known format. */
export async function detectReader(path: string): Promise<TaskReader> {
  const head = await headOf(path);
  if (head === null) return harborReader;
  if (head.complete && head.text.trim() === '') throw new TasksFileError(path, 'is empty');
  const reader = readers.find((candidate) => candidate.matches(head));
  if (reader === undefined) {
    throw new TasksFileError(path, 'is neither JSON (an array, or an object with "tasks") nor JSON lines');
  }
  return reader;
}
