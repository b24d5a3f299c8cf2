import { canonicalJson, type EpisodeJob, type Lane, type Task } from '../contracts/index.ts';
import { RunConflictError, type AddBatchOptions, type AddedBatch } from './api.ts';
import { episodeJobOf } from './episode-job-of.ts';
import { fenceGroups, type GroupFence, type KnownGroup } from './lua/fence-group.ts';
import { openBatchRecord } from './lua/open-batch.ts';
import { surveyGroups } from './lua/survey-group.ts';
import { firstGeneration, nextGeneration, sameGeneration } from './generations.ts';
import { checkName } from './names.ts';
import { refuseDifference, runOver } from './open-run.ts';
import { repairGroup, type RepairParts } from './repair.ts';
import { batchSettingsSchema, parseSettings, type BatchSettings } from './run-settings.ts';
import { storeTasks } from './task-store.ts';
import { listWorkers } from './workers-alive.ts';

type Counts = { -readonly [K in keyof Omit<AddedBatch, 'unservedLanes'>]: number };

/** What one call of addBatch works with. */
interface Adding {
  readonly parts: RepairParts;
  readonly options: AddBatchOptions;
  readonly batch: BatchSettings;
  readonly counts: Counts;
  readonly lanes: Set<Lane>;
}

/**
 * Adds a batch in chunks: task bodies first, then the fences of the groups, then the jobs. A crash between two of them is
 * healed by the same call again, or by the reconciler.
 */
export async function addBatch(parts: RepairParts, options: AddBatchOptions): Promise<AddedBatch> {
  const { run_id, batch_id } = options;
  checkName('run_id', run_id);
  checkName('batch_id', batch_id);
  const adding: Adding = {
    parts,
    options,
    batch: await openBatch(parts, options),
    counts: { tasks: 0, added: 0, known: 0, groups: 0, retried: 0, healed: 0 },
    lanes: new Set(),
  };
  const { samples } = adding.batch;
  const tasksAtOnce = Math.max(1, Math.floor((options.chunk ?? 1_000) / samples));
  let chunk: Task[] = [];
  for await (const task of options.tasks) {
    chunk.push(task);
    if (chunk.length < tasksAtOnce) continue;
    await addChunk(adding, chunk);
    chunk = [];
  }
  if (chunk.length > 0) await addChunk(adding, chunk);
  return { ...adding.counts, unservedLanes: await unserved(adding) };
}

async function openBatch(parts: RepairParts, options: AddBatchOptions): Promise<BatchSettings> {
  const { run_id, batch_id } = options;
  const run = await parts.runs.read(run_id);
  if (run === null) throw unknownRun(run_id);
  const given = parseSettings(
    batchSettingsSchema,
    {
      samples: options.samples ?? run.samples,
      sampling: options.sampling ?? {},
      limits: options.limits ?? {},
      priority: options.priority ?? 0,
      deadline_at: options.deadline_at ?? null,
    },
    'batch',
  );
  const [verdict, text] = await openBatchRecord(parts.redis, parts.names, {
    run_id,
    batch_id,
    settings: canonicalJson(given),
    now: Date.now(),
  });
  if (verdict === 'unknown') throw unknownRun(run_id);
  if (verdict === 'closed' || verdict === 'ended') throw runOver(run_id, verdict === 'ended');
  const existing = parseSettings(batchSettingsSchema, JSON.parse(text!), `batch ${batch_id}`);
  // Priority and deadline are those of the first submit: they say when it was wanted, not what it is.
  const what = ({ samples, sampling, limits }: BatchSettings): object => ({ samples, sampling, limits });
  refuseDifference('run_settings_differ', `batch ${batch_id} of run ${run_id}`, what(existing), what(given));
  return existing;
}

function unknownRun(run_id: string): RunConflictError {
  return new RunConflictError('run_unknown', 'run_id', `there is no run ${run_id}: open it first`);
}

async function addChunk(adding: Adding, tasks: readonly Task[]): Promise<void> {
  const { parts, options, counts, batch } = adding;
  options.signal?.throwIfAborted();
  const refs = await storeTasks(parts.redis, parts.names, tasks);
  const groups = tasks.map((task, index) => {
    const lane = options.laneOf(task);
    adding.lanes.add(lane);
    const { run_id, batch_id } = options;
    return firstGeneration({ run_id, batch_id, task, task_ref: refs[index]!, lane, samples: batch.samples });
  });
  const fenced = await fence(adding, groups);
  const fresh = [...fenced.fresh];
  const open: GroupFence[] = [];
  for (const { group, known } of fenced.known) {
    const next = await resume(adding, group, known);
    if (next.fresh) fresh.push(next.group);
    else if (next.open) open.push(next.group);
  }
  await addJobs(adding, fresh);
  await heal(adding, open);
  counts.tasks += tasks.length;
  const { added, known } = counts;
  options.onProgress?.({ tasks: counts.tasks, added, known });
}

interface Fenced {
  readonly fresh: readonly GroupFence[];
  readonly known: readonly { readonly group: GroupFence; readonly known: KnownGroup }[];
}

async function fence({ parts }: Adding, groups: readonly GroupFence[]): Promise<Fenced> {
  const replies = await fenceGroups(parts.redis, parts.names, groups, Date.now());
  return {
    fresh: groups.filter((_group, index) => replies[index] === null),
    known: groups.flatMap((group, index) => {
      const known = replies[index];
      return known === null || known === undefined ? [] : [{ group, known }];
    }),
  };
}

/** What a group that is there already needs: a new generation, a look at its jobs, or nothing. */
async function resume(
  adding: Adding,
  group: GroupFence,
  known: KnownGroup,
): Promise<{ readonly group: GroupFence; readonly fresh: boolean; readonly open: boolean }> {
  const { options, counts, parts } = adding;
  if (known.task_ref !== group.task_ref) {
    throw new RunConflictError(
      'task_differs',
      'task_key',
      `task ${group.task_key} of batch ${group.batch_id} was added before with another body`,
    );
  }
  if (known.size !== group.episode_ids.length) {
    throw new RunConflictError(
      'samples_differ',
      'samples',
      `task ${group.task_key} was added before with ${known.size} samples, now ${group.episode_ids.length}`,
    );
  }
  if (known.latest > group.generation) {
    const newest = sameGeneration(group, known.latest);
    const [reply] = await fenceGroups(parts.redis, parts.names, [newest], Date.now());
    return resume(adding, newest, reply!);
  }
  if (!known.closed) {
    counts.known += known.size;
    return { group, fresh: false, open: true };
  }
  const next = options.retryFailed === true ? await nextGeneration(parts, group, known) : null;
  if (next === null) {
    counts.known += known.size;
    return { group, fresh: false, open: false };
  }
  const fenced = await fence(adding, [next]);
  counts.known += next.carried.length;
  counts.retried += next.superseded.length;
  return { group: next, fresh: fenced.fresh.length === 1, open: fenced.fresh.length === 0 };
}

/** Adds the jobs of groups whose fence was set just now. */
async function addJobs({ parts, batch, counts }: Adding, groups: readonly GroupFence[]): Promise<void> {
  const lanes = new Map<Lane, EpisodeJob[]>();
  for (const group of groups) {
    const carried = new Set(group.carried.map((member) => member.sample_index));
    const jobs = lanes.get(group.lane) ?? [];
    lanes.set(group.lane, jobs);
    for (const [sample_index, episode_id] of group.episode_ids.entries()) {
      if (carried.has(sample_index)) continue;
      const size = group.episode_ids.length;
      jobs.push(episodeJobOf({ ...group, size }, batch, { episode_id, sample_index }));
    }
    counts.groups += 1;
  }
  for (const [lane, jobs] of lanes) {
    await parts.jobs.addEpisodes(lane, jobs);
    counts.added += jobs.length;
  }
}

/** Puts back what a crash between the fence and the jobs left out. */
async function heal({ parts, batch, counts, options }: Adding, groups: readonly GroupFence[]): Promise<void> {
  const ids = groups.map((group) => group.group_id);
  for (const survey of await surveyGroups(parts.redis, parts.names, options.run_id, ids)) {
    if (survey === null) continue;
    const repaired = await repairGroup(parts, survey, batch);
    counts.healed += repaired.requeued;
  }
}

async function unserved({ parts, lanes }: Adding): Promise<Lane[]> {
  const workers = await listWorkers(parts.redis, parts.names);
  const alone = [...lanes].filter((lane) => !workers.some((worker) => worker.lanes[lane] !== undefined));
  for (const lane of alone) parts.log.warn({ lane }, 'no worker serves this lane');
  return alone;
}
