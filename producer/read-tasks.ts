import type { Task } from '../src/contracts/index.ts';
import type { FieldFault } from './field-fault.ts';
import { normaliseTask } from './normalise-task.ts';
import { detectReader } from './readers/detect.ts';
import type { RawTask } from './readers/task-reader.ts';
import { TasksFileError } from './tasks-file-error.ts';

/** What is wrong with one task of a file. The other tasks load. */
export interface TaskFault {
  /** The tasks file; of a task that has files of its own, the one the fault is in. */
  readonly file: string;
  /** Place among the file's tasks, from 0. */
  readonly index: number;
  /** Line in the file, from 1; null where a format has no lines, or nobody knows which. */
  readonly line: number | null;
  readonly task_key: string | null;
  /** Path of the field; '' for the task as a whole. */
  readonly field: string;
  readonly reason: string;
}

/** What became of a file's tasks so far; complete when the tasks have been read to the end. */
export interface TasksReport {
  readonly file: string;
  /** Name of the format; null before it is known. */
  readonly format: string | null;
  /** Tasks looked at: `loaded + refused`. */
  readonly read: number;
  readonly loaded: number;
  /** Tasks with a fault, duplicates among them. */
  readonly refused: number;
  /** Tasks whose key an earlier one has. */
  readonly duplicates: number;
  /** In order of the file; the first `faultsKept` of them. */
  readonly faults: readonly TaskFault[];
  /** What of loaded tasks is left aside; the first `faultsKept` of them. */
  readonly warnings: readonly TaskFault[];
}

/** How many faults a report holds; a file with more has one cause, and it shows. */
export const faultsKept = 1_000;

export interface ReadTasksOptions {
  /** Stops after so many tasks were loaded. Default: all. */
  readonly limit?: number;
  /** Reads the file twice, and yields nothing of one that has a fault within `limit`. Default: false. */
  readonly strict?: boolean;
  readonly signal?: AbortSignal;
}

/** The tasks of a file, to be iterated once, and the report that grows with it. */
export interface TaskReading extends AsyncIterable<Task> {
  readonly report: TasksReport;
}

/** One line for people. */
export function describeFault(fault: TaskFault): string {
  const place =
    fault.line === null
      ? `${fault.file}: task ${fault.index}`
      : `${fault.file}:${fault.line}: task ${fault.index}`;
  const key = fault.task_key === null ? '' : ` (${fault.task_key})`;
  return `${place}${key}: ${fault.field === '' ? '' : `${fault.field}: `}${fault.reason}`;
}

class Reading implements TaskReading {
  readonly report: { -readonly [K in keyof TasksReport]: TasksReport[K] } & {
    faults: TaskFault[];
    warnings: TaskFault[];
  };
  readonly #options: ReadTasksOptions;
  /** Where a key was first met. */
  readonly #seen = new Map<string, string>();

  constructor(file: string, options: ReadTasksOptions) {
    const counts = { read: 0, loaded: 0, refused: 0, duplicates: 0 };
    this.report = { file, format: null, ...counts, faults: [], warnings: [] };
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Task> {
    const { limit = Infinity, strict = false, signal } = this.#options;
    const { file } = this.report;
    if (strict) await refuseFaults(file, this.#options);
    if (limit <= 0) return;
    const reader = await detectReader(file);
    this.report.format = reader.name;
    for await (const raw of reader.read(file, signal)) {
      signal?.throwIfAborted();
      const task = this.#take(raw);
      if (task !== null) yield task;
      if (this.report.loaded >= limit) return;
    }
  }

  #take(raw: RawTask): Task | null {
    this.report.read += 1;
    const normalised =
      'unreadable' in raw
        ? { key: null, faults: [{ field: '', reason: raw.unreadable }] }
        : 'faults' in raw
          ? raw
          : normaliseTask(raw.value);
    if ('faults' in normalised) {
      this.#refuse(raw, normalised.key, normalised.faults);
      return null;
    }
    const { task } = normalised;
    const keyField = 'keyField' in raw ? raw.keyField : normalised.keyField;
    const first = this.#seen.get(task.task_key);
    if (first !== undefined) {
      this.report.duplicates += 1;
      this.#refuse(raw, task.task_key, [
        { field: keyField, reason: `${first} has the same key; the first one is taken` },
      ]);
      return null;
    }
    this.#seen.set(task.task_key, `task ${raw.index}${raw.file === undefined ? '' : ` (${raw.file})`}`);
    this.report.loaded += 1;
    this.#note(this.report.warnings, raw, task.task_key, raw.warnings ?? []);
    return task;
  }

  #refuse(raw: RawTask, key: string | null, faults: readonly FieldFault[]): void {
    this.report.refused += 1;
    this.#note(this.report.faults, raw, key, faults);
  }

  #note(kept: TaskFault[], raw: RawTask, key: string | null, notes: readonly FieldFault[]): void {
    for (const { field, reason, file, line } of notes) {
      if (kept.length >= faultsKept) return;
      kept.push({
        file: file ?? raw.file ?? this.report.file,
        index: raw.index,
        line: line ?? raw.line,
        task_key: key,
        field,
        reason,
      });
    }
  }
}

async function refuseFaults(file: string, options: ReadTasksOptions): Promise<void> {
  const check = readTasks(file, { ...options, strict: false });
  for await (const _task of check);
  const { refused, faults } = check.report;
  if (refused === 0) return;
  const lines = faults.slice(0, 20).map((fault) => `  ${describeFault(fault)}`);
  const more = faults.length > lines.length ? [`  and ${faults.length - lines.length} more`] : [];
  throw new TasksFileError(
    file,
    [`${refused} of ${check.report.read} tasks have faults`, ...lines, ...more].join('\n'),
  );
}

/**
 * Reads a tasks file of any known format: a JSON array, `{"tasks": [...]}`, or JSON lines (which are streamed); or a Harbor
 * task directory, or a folder of them. A task with faults is left out and reported; of several with one key the first is taken.
 *
 * @throws TasksFileError while iterating: missing, empty or broken file; with `strict`, a file with any fault.
 */
export function readTasks(file: string, options: ReadTasksOptions = {}): TaskReading {
  return new Reading(file, options);
}
