import type { FieldFault } from '../field-fault.ts';

/** The beginning of a tasks file: what a detector decides by. */
export interface FileHead {
  readonly path: string;
  /** The first bytes, at most 64 KiB of them. */
  readonly text: string;
  /** True when `text` is the whole file. */
  readonly complete: boolean;
}

/** One task as it stands in a file, before it is checked; or what hinders reading it, in words or field by field. */
export type RawTask = {
  /** Place among the file's tasks, from 0. */
  readonly index: number;
  /** Line in the file, from 1; null where a format has no lines. */
  readonly line: number | null;
  /** What the task was read from, where that is not the tasks file itself. */
  readonly file?: string;
  /** What of it is left aside. */
  readonly warnings?: readonly FieldFault[];
} &
  /** `keyField`: where its key is from, where that is not `task_key`. */
  (
    | { readonly value: unknown; readonly keyField?: string }
    | { readonly unreadable: string }
    | { readonly key: string | null; readonly faults: readonly FieldFault[] }
  );

/** One format of tasks files. */
export interface TaskReader {
  /** For messages. */
  readonly name: string;
  /** Yields the tasks in order. Throws TasksFileError when the file as a whole cannot be read. */
  read(path: string, signal?: AbortSignal): AsyncIterable<RawTask>;
}

/** A format that the beginning of a file shows. */
export interface FileReader extends TaskReader {
  matches(head: FileHead): boolean;
}
