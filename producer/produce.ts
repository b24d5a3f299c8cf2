import { createHash } from 'node:crypto';
import type { Lane, Limits, SamplingOverrides, Task } from '../src/contracts/index.ts';
import type {
  AddBatchOptions,
  AddedBatch,
  OpenedRun,
  RolloutQueue,
  RunSettings,
} from '../src/queue/index.ts';
import { laneOf, type SandboxProvider } from './lane-of.ts';
import { describeFault, readTasks, type ReadTasksOptions, type TasksReport } from './read-tasks.ts';
import { tasksContent } from './tasks-content.ts';
import { cannotRead, TasksFileError } from './tasks-file-error.ts';

export interface ProduceOptions
  extends
    ReadTasksOptions,
    Pick<AddBatchOptions, 'priority' | 'deadline_at' | 'retryFailed' | 'chunk' | 'onProgress'> {
  readonly run_id: string;
  /** Default: `0`. */
  readonly batch_id?: string;
  /** Episodes of each task. Default: 1. */
  readonly samples?: number;
  /** Who gives sandboxes to claude_code tasks. */
  readonly sandbox: SandboxProvider;
  /** The run's. Default: {}. */
  readonly sampling?: SamplingOverrides;
  /** The run's. Default: {}. */
  readonly limits?: Limits;
  /** Further settings of the run that must not change. */
  readonly extra?: NonNullable<RunSettings['extra']>;
  /** Opens a closed or cancelled run again. Default: false. */
  readonly reopen?: boolean;
}

export interface Produced {
  readonly report: TasksReport;
  readonly run: OpenedRun;
  readonly batch: AddedBatch;
}

export interface ProducePlan {
  readonly report: TasksReport;
  /** Episodes by lane. */
  readonly lanes: Readonly<Partial<Record<Lane, number>>>;
  /** Fleet tasks by the `env_key` they want. */
  readonly environments: Readonly<Record<string, number>>;
}

async function hashOf(file: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of tasksContent(file, signal)) hash.update(chunk);
  } catch (fault) {
    if (signal?.aborted) throw fault;
    throw fault instanceof TasksFileError ? fault : cannotRead(file, fault);
  }
  return hash.digest('hex').slice(0, 32);
}

function checkSamples(samples: number): void {
  if (!Number.isInteger(samples) || samples < 1) {
    throw new Error(`samples must be a whole number above 0, got ${samples}`);
  }
}

function nothingLoaded(report: TasksReport): TasksFileError {
  const lines = report.faults.slice(0, 20).map((fault) => `\n  ${describeFault(fault)}`);
  return new TasksFileError(report.file, `not one task could be loaded${lines.join('')}`);
}

/** The iterator's rest with its first item before it. */
async function* withFirst(first: Task, rest: AsyncIterator<Task>): AsyncIterable<Task> {
  yield first;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}

/**
 * Adds a tasks file, or a directory of tasks, to a run as one batch: `tasks × samples` episodes. The same file again adds nothing. Nothing is
 * written before the file has shown a task that can be used, or with `strict` that all can.
 *
 * @throws TasksFileError for the file; RunConflictError when the run was opened with other settings.
 */
export async function produce(queue: RolloutQueue, file: string, options: ProduceOptions): Promise<Produced> {
  const { run_id, batch_id = '0', samples = 1, sandbox, sampling = {}, limits = {} } = options;
  checkSamples(samples);
  const reading = readTasks(file, options);
  const iterator = reading[Symbol.asyncIterator]();
  try {
    const first = await iterator.next();
    if (first.done) throw nothingLoaded(reading.report);
    const settings: RunSettings = {
      samples,
      sampling,
      limits,
      manifest_hash: await hashOf(file, options.signal),
      ...(options.extra === undefined ? {} : { extra: options.extra }),
    };
    const run = await queue.openRun({
      run_id,
      settings,
      ...(options.reopen === undefined ? {} : { reopen: options.reopen }),
    });
    const { priority, deadline_at, retryFailed, chunk, signal, onProgress } = options;
    const batch = await queue.addBatch({
      run_id,
      batch_id,
      tasks: withFirst(first.value, iterator),
      laneOf: (task) => laneOf(task, { sandbox }),
      ...(priority === undefined ? {} : { priority }),
      ...(deadline_at === undefined ? {} : { deadline_at }),
      ...(retryFailed === undefined ? {} : { retryFailed }),
      ...(chunk === undefined ? {} : { chunk }),
      ...(signal === undefined ? {} : { signal }),
      ...(onProgress === undefined ? {} : { onProgress }),
    });
    return { report: reading.report, run, batch };
  } finally {
    await iterator.return?.();
  }
}

/** What `produce` would add, without a queue: the answer to `--dry-run`. @throws TasksFileError as `produce` does. */
export async function planProduce(
  file: string,
  options: ReadTasksOptions & Pick<ProduceOptions, 'samples' | 'sandbox'>,
): Promise<ProducePlan> {
  const { samples = 1, sandbox } = options;
  checkSamples(samples);
  const reading = readTasks(file, options);
  const lanes: Partial<Record<Lane, number>> = {};
  const environments: Record<string, number> = {};
  for await (const task of reading) {
    const lane = laneOf(task, { sandbox });
    lanes[lane] = (lanes[lane] ?? 0) + samples;
    if (task.kind === 'fleet') environments[task.env_key] = (environments[task.env_key] ?? 0) + 1;
  }
  if (reading.report.loaded === 0) throw nothingLoaded(reading.report);
  return { report: reading.report, lanes, environments };
}
