import type { Redis } from 'ioredis';
import type {
  Lane,
  Limits,
  RegradeOrder,
  ResultSummary,
  SamplingOverrides,
  Status,
  Task,
} from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import type { QueueNames } from './names.ts';
import type { AbortCause, EpisodeProcessor } from './processor.ts';
import type { QueueTimings } from './timings.ts';

/** What every part of the queue is opened with. */
export interface QueueOptions {
  /** `redis://`, `rediss://` or `unix:///path[?db=n]`. */
  readonly redisUrl: string;
  /** One hash tag. Default: `{rollpool}`. */
  readonly prefix?: string;
  /** Default: silent. */
  readonly log?: Logger;
  /** Over `defaultTimings`. */
  readonly timings?: Partial<QueueTimings>;
}

/** What a run is opened with; the same run opened again must be opened with the same. */
export interface RunSettings {
  /** Samples of each task. */
  readonly samples: number;
  readonly sampling: SamplingOverrides;
  readonly limits: Limits;
  /** Hash of the tasks file; null when tasks come by and by, as a trainer's batches do. */
  readonly manifest_hash: string | null;
  /** Whatever else must not change within a run, compared field by field (model, sandbox provider, ...). */
  readonly extra?: Readonly<Record<string, string | number | boolean | null>>;
}

export interface OpenRunOptions {
  /** Letters, digits and `._-`, at most 128. */
  readonly run_id: string;
  readonly settings: RunSettings;
  /** Opens a closed or cancelled run again. Default: false, which refuses it. */
  readonly reopen?: boolean;
}

export interface OpenedRun {
  readonly run_id: string;
  /** False when the run was there already, with the same settings. */
  readonly created: boolean;
}

/** A run cannot be used as asked. `code` is stable; `field` names what differs. */
export class RunConflictError extends Error {
  readonly code: 'run_settings_differ' | 'run_closed' | 'run_unknown' | 'task_differs' | 'samples_differ';
  readonly field: string;
  constructor(code: RunConflictError['code'], field: string, message: string) {
    super(message);
    this.name = 'RunConflictError';
    this.code = code;
    this.field = field;
  }
}

export interface AddBatchOptions {
  readonly run_id: string;
  readonly batch_id: string;
  /** Read once, in order; never held as a whole. Equal keys: the caller has dropped all but the first. */
  readonly tasks: Iterable<Task> | AsyncIterable<Task>;
  /** Samples of each task. Default: the run's. */
  readonly samples?: number;
  /** The lane a task's episodes go to. */
  readonly laneOf: (task: Task) => Lane;
  /** Over the run's. Default: {}. */
  readonly sampling?: SamplingOverrides;
  /** Over the run's. Default: {}; a task's own limits lie in its body. */
  readonly limits?: Limits;
  /** Higher is sooner. Default: 0. Clamped to ±1,000,000. */
  readonly priority?: number;
  /** Epoch milliseconds after which an episode is not started any more. Default: none. */
  readonly deadline_at?: number;
  /** Makes a new generation of each closed group that has failed, cancelled or missing members. Default: false. */
  readonly retryFailed?: boolean;
  /** Jobs added in one go. Default: 1000. */
  readonly chunk?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: AddProgress) => void;
}

export interface AddProgress {
  readonly tasks: number;
  /** Episodes added now. */
  readonly added: number;
  /** Episodes that were there before. */
  readonly known: number;
}

export interface AddedBatch extends AddProgress {
  /** Groups made now. */
  readonly groups: number;
  /** Failed, cancelled or missing episodes that got a new generation. */
  readonly retried: number;
  /** Jobs that had been lost and were put back. */
  readonly healed: number;
  /** Lanes that got episodes and that no living worker serves. */
  readonly unservedLanes: readonly Lane[];
}

export type RunState = 'open' | 'paused' | 'closed';

export interface RunStatus {
  readonly run_id: string;
  readonly state: RunState;
  readonly cancelled: boolean;
  /** Epoch milliseconds. */
  readonly created_at: number;
  readonly settings: RunSettings;
  readonly batches: readonly string[];
  readonly groups: { readonly expected: number; readonly closed: number };
  /** `queued + running + published + delivered + missing = expected`. */
  readonly episodes: {
    readonly expected: number;
    readonly queued: number;
    readonly running: number;
    /** Published and not yet in their group. */
    readonly published: number;
    readonly delivered: number;
    readonly missing: number;
  };
  readonly by_status: Readonly<Record<Status, number>>;
  /** Results with a reward. */
  readonly scored: number;
  /** Mean of the rewards there are; null when there is none. */
  readonly reward_mean: number | null;
  /** Attempts that ended in an infra failure and were tried again. */
  readonly retries: number;
  /** Tokens sampled by delivered episodes. */
  readonly sampled_tokens: number;
  /** True when every expected episode is delivered or missing. */
  readonly done: boolean;
}

export interface LaneCounts {
  readonly lane: Lane;
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
}

/** Heartbeat of a worker process. */
export interface WorkerRecord {
  readonly worker: string;
  readonly host: string;
  readonly pid: number;
  /** Epoch milliseconds. */
  readonly started_at: number;
  readonly seen_at: number;
  readonly lanes: Readonly<Partial<Record<Lane, number>>>;
  readonly running: number;
}

/** Why an episode that has not run ends without running. */
export type EndReason = 'cancelled' | 'stale';

/** What a producer or a command does with the queue. Every call fails within seconds when Redis is away. */
export interface RolloutQueue extends AsyncDisposable {
  readonly names: QueueNames;
  /** Fail-fast connection, shared by all calls. */
  readonly redis: Redis;
  /** Creates the run or resumes it. Rejects with RunConflictError naming the field that differs. */
  openRun(options: OpenRunOptions): Promise<OpenedRun>;
  /** Adds a batch to an open run; the same batch again adds nothing. Rejects with RunConflictError. */
  addBatch(options: AddBatchOptions): Promise<AddedBatch>;
  /** Stores what episodes of a run are to grade again, by episode id; to be done before they are added. */
  orderRegrades(run_id: string, orders: ReadonlyMap<string, RegradeOrder>): Promise<void>;
  /** null: that episode grades nothing again. */
  regradeOrder(run_id: string, episode_id: string): Promise<RegradeOrder | null>;
  /** null when there is no such run. */
  runStatus(run_id: string): Promise<RunStatus | null>;
  /** Newest first. */
  listRuns(): Promise<RunStatus[]>;
  laneCounts(): Promise<LaneCounts[]>;
  listWorkers(): Promise<WorkerRecord[]>;
  /** Ids of all workers that were here in the last days: who is missing belongs to another Redis. */
  listSeenWorkers(): Promise<string[]>;
  /** Each returns whether the target exists. Running episodes are ended by the control channel, not by these. */
  cancelRun(run_id: string, reason?: EndReason): Promise<boolean>;
  cancelGroup(group_id: string, reason?: EndReason): Promise<boolean>;
  cancelEpisode(episode_id: string, reason?: EndReason): Promise<boolean>;
  pauseRun(run_id: string): Promise<boolean>;
  resumeRun(run_id: string): Promise<boolean>;
  /** No more batches; what is queued still runs. */
  closeRun(run_id: string): Promise<boolean>;
  /**
   * Closes a group with what it has; members without a result are named in `missing`. False: unknown or closed.
   */
  closeGroup(group_id: string): Promise<boolean>;
  /** One pass of the reconciler over one run or all; null when another one is at work. */
  reconcile(run_id?: string): Promise<ReconcileReport | null>;
  close(): Promise<void>;
}

export interface EpisodeWorkerOptions extends QueueOptions {
  readonly lanes: readonly Lane[];
  /** Episodes at a time: over all lanes, or for each lane. */
  readonly concurrency: number | Readonly<Partial<Record<Lane, number>>>;
  readonly process: EpisodeProcessor;
  /** Default: host, pid and a random part. */
  readonly workerId?: string;
  /** Default: `defaultMaxAttempts`. */
  readonly maxAttempts?: number;
  /**
   * Seconds the storing of a result may take before the attempt counts as an infra failure. A result that Redis takes
   * later all the same stands. Default: `defaultLimits.publish_seconds`.
   */
  readonly publishSeconds?: number;
  /** The only run whose episodes it runs; others are put aside for other workers, no attempt counted. Default: all runs. */
  readonly onlyRun?: string;
  /** Called after an episode's result was published (not for duplicates). */
  readonly onPublished?: (summary: ResultSummary) => void;
}

export interface LiveEpisode {
  readonly episode_id: string;
  readonly group_id: string;
  readonly run_id: string;
  readonly lane: Lane;
  readonly attempt: number;
  readonly nonce: string;
  /** Epoch milliseconds. */
  readonly started_at: number;
}

export interface CloseOptions {
  /**
   * `handoff`: episodes are aborted, torn down and put back in their lane, no attempt counted. `drain`: they may end
   * until the deadline, the rest is handed off. `now`: nothing is waited for; locks expire and others take over, no
   * attempt counted either.
   * Default: handoff.
   */
  readonly mode?: 'handoff' | 'drain' | 'now';
  /** Milliseconds until `now` takes over. Default: 25,000. For `drain`, hand-off starts 10 s (or half) before. */
  readonly deadlineMs?: number;
}

export interface EpisodeWorker extends AsyncDisposable {
  readonly id: string;
  /** Episodes this process runs at present. */
  live(): LiveEpisode[];
  /** Ends running episodes with `cause`; the number of them. What happens to them then depends on `cause.kind`. */
  abortEpisode(episode_id: string, cause: AbortCause): number;
  abortGroup(group_id: string, cause: AbortCause): number;
  abortRun(run_id: string, cause: AbortCause): number;
  /** A second call closes at once, whatever its mode. */
  close(options?: CloseOptions): Promise<void>;
}

export interface FeederOptions extends QueueOptions {
  /** Results taken at a time. Default: 32. */
  readonly concurrency?: number;
}

/** A running part that can be stopped. */
export interface Running extends AsyncDisposable {
  close(): Promise<void>;
}

export interface ReconcileReport {
  readonly groups: number;
  /** Jobs that were missing and added again. */
  readonly requeued: number;
  /** Published results whose result job was missing. */
  readonly republished: number;
  /** Queued episodes that were cancelled, stale or past their deadline and got a result without running. */
  readonly swept: number;
}
