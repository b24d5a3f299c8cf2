import { readFile } from 'node:fs/promises';
import type { FileContent } from '../../../src/contracts/index.ts';
import type { Notes } from './notes.ts';
import { largestTask } from './task-files.ts';
import type { FoundFile, Untakable } from './walk.ts';

export interface TakenFiles {
  readonly files: Record<string, FileContent>;
  /** Paths of executable ones. */
  readonly executable: readonly string[];
}

/** Bytes that a task may still take. */
export interface Budget {
  left: number;
  exceeded: boolean;
}

export function text(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** UTF-8 as text, anything else as base64: both are the same bytes in the end. */
function content(bytes: Buffer): FileContent {
  const read = bytes.includes(0) ? null : text(bytes);
  return read ?? { base64: bytes.toString('base64') };
}

/** Takes files into a task. `directory` is the name they have in notes. */
export async function takeFiles(
  found: AsyncIterable<FoundFile | Untakable>,
  directory: string,
  budget: Budget,
  notes: Notes,
): Promise<TakenFiles> {
  const files: [string, FileContent][] = [];
  const executable: string[] = [];
  for await (const file of found) {
    const place = file.path === '' ? directory : `${directory}/${file.path}`;
    if ('reason' in file) {
      notes.fault(place, '', file.reason);
      continue;
    }
    if (file.size > budget.left) {
      // One is told: those after it would only repeat it.
      if (!budget.exceeded) {
        notes.fault(
          place,
          '',
          `has ${file.size} bytes: the files of a task together may have ${largestTask}; put large ones into an image and name it as docker_image`,
        );
      }
      budget.exceeded = true;
      continue;
    }
    const bytes = await readFile(file.at);
    budget.left -= bytes.length;
    files.push([file.path, content(bytes)]);
    if (file.executable) executable.push(file.path);
  }
  return { files: Object.fromEntries(files), executable };
}
