/** The beginning of a tasks file: what a detector decides by. */
export interface FileHead {
  readonly path: string;
  /** The first bytes, at most 64 KiB of them. */
  readonly text: string;
  /** True when `text` is the whole file. */
  readonly complete: boolean;
}

/** One task as it stands in a file, before it is checked; or what hinders reading it. */
export type RawTask = {
  /** Place among the file's tasks, from 0. */
  readonly index: number;
  /** Line in the file, from 1; null where a format has no lines. */
  readonly line: number | null;
} & ({ readonly value: unknown } | { readonly unreadable: string });

/** One format of tasks files. */
export interface TaskReader {
  /** For messages. */
  readonly name: string;
  matches(head: FileHead): boolean;
  /** Yields the tasks in order. Throws TasksFileError when the file as a whole cannot be read. */
  read(path: string, signal?: AbortSignal): AsyncIterable<RawTask>;
}
