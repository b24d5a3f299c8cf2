import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { findTasks } from './find-tasks.ts';
import { contextFiles, largestTask, parts, testFiles } from './task-files.ts';
import type { FoundFile, Untakable } from './walk.ts';

async function* single(task: string, name: string): AsyncIterable<FoundFile | Untakable> {
  const at = join(task, name);
  try {
    const found = await stat(at);
    if (found.isFile()) yield { path: '', at, size: found.size, executable: false };
    else yield { path: '', reason: 'is not a regular file' };
  } catch (fault) {
    yield { path: '', reason: (fault as NodeJS.ErrnoException).code ?? String(fault) };
  }
}

/**
 * All that the Harbor tasks at a path are read from, in an order that only names decide: a header for each file, then its
 * bytes. Neither where the directory is nor how old its files are is part of it; a solution or a README neither.
 */
export async function* taskContent(path: string, signal?: AbortSignal): AsyncIterable<Buffer> {
  for await (const task of findTasks(path)) {
    const sources: [string, AsyncIterable<FoundFile | Untakable>][] = [
      ...[parts.config, parts.instruction, parts.trajectory, parts.compose].map(
        (name): [string, AsyncIterable<FoundFile | Untakable>] => [name, single(task.path, name)],
      ),
      [parts.environment, contextFiles(task.path)],
      [parts.tests, testFiles(task.path, true)],
    ];
    for (const [part, files] of sources) {
      for await (const file of files) {
        signal?.throwIfAborted();
        const { at = null, ...header } = file as Partial<FoundFile & Untakable>;
        yield Buffer.from(`${JSON.stringify([task.below, task.name, part, header])}\n`);
        // A larger one makes the task unusable, whatever is in it.
        if (at === null || header.size! > largestTask) continue;
        yield* createReadStream(at, signal === undefined ? {} : { signal }) as AsyncIterable<Buffer>;
      }
    }
  }
}
