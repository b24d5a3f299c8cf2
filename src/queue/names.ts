import type { Lane } from '../contracts/index.ts';

/** One hash tag: every key of one deployment lies in one slot, so that scripts may touch several of them. */
export const defaultPrefix = '{rollpool}';

/** The BullMQ queue that carries published results to the feeders. */
export const resultsQueue = 'results';

/** The BullMQ queue of one lane. */
export function episodeQueue(lane: Lane): string {
  return `episodes-${lane}`;
}

/** Every key, stream and channel of one deployment. BullMQ's own keys lie beside them under the same prefix. */
export interface QueueNames {
  /** Also BullMQ's `prefix`. */
  readonly prefix: string;
  /** ZSET run_id -> epoch ms of its creation. */
  readonly runs: string;
  /** ZSET worker id -> epoch ms of its last heartbeat. */
  readonly workers: string;
  /** ZSET worker id -> epoch ms of its last heartbeat, of workers that ended too, for some days. */
  readonly seenWorkers: string;
  /** STRING with TTL: the reconciler that is at work. */
  readonly reconcileLock: string;
  /** STREAM of batches that trainers submit. */
  readonly inbox: string;
  /** PUBSUB: control messages (cancel, pause, resume, policy). */
  readonly controlChannel: string;
  /** STRING: the policy state as last set by a trainer. */
  readonly policy: string;
  /** HASH: settings, fingerprint, state and counters of a run. */
  run(run: string): string;
  /** SET of group ids of a run that are not closed yet. */
  openGroups(run: string): string;
  /** ZSET group id -> epoch ms at which it closed. */
  closedGroups(run: string): string;
  /** SET of `<lane> <episode id>`: jobs that wait as delayed because the run is paused. */
  parked(run: string): string;
  /** SET of batch ids of a run. */
  batches(run: string): string;
  /** HASH: one submit. */
  batch(run: string, batch: string): string;
  /** HASH: what the samples of a group share, its slots, and after closing its tombstone. */
  group(group: string): string;
  /** HASH: state machine of one episode; deleted when its group closes. */
  episode(episode: string): string;
  /** STRING: deflated JSON of a task's normal form. */
  task(ref: string): string;
  /** STRING: encoded sequences and trace of one attempt. */
  payload(episode: string, nonce: string): string;
  /** STREAM of closed groups of a run. */
  groups(run: string): string;
  /** STREAM, capped: each delivered result of a run, for followers. */
  deliveries(run: string): string;
  /** HASH with TTL: what holds creations back at a provider that refused one; absent: nothing does. */
  gate(provider: string): string;
  /** Base of the keys of a provider's places: who holds them, who waits for one, and the pace of new ones. */
  places(provider: string): string;
  /** HASH: what each episode of a run grades again, by episode id; absent: the run has agents. */
  regrades(run: string): string;
  /** STRING with TTL: heartbeat record of a worker process. */
  worker(worker: string): string;
  /** Base of a BullMQ queue's keys; a job's hash is `<base><job id>`. */
  queueBase(queue: string): string;
}

/** Names under `prefix`, which is one hash tag such as `{rollpool}`. */
export function queueNames(prefix: string = defaultPrefix): QueueNames {
  if (!/^\{[^{}:]+\}$/.test(prefix)) {
    throw new Error(`prefix must be one hash tag such as {rollpool}, got ${JSON.stringify(prefix)}`);
  }
  const key = (...parts: string[]): string => [prefix, ...parts].join(':');
  return Object.freeze({
    prefix,
    runs: key('runs'),
    workers: key('workers'),
    seenWorkers: key('workers', 'seen'),
    reconcileLock: key('lock', 'reconcile'),
    inbox: key('inbox'),
    controlChannel: key('control'),
    policy: key('policy'),
    run: (run: string) => key('run', run),
    openGroups: (run: string) => key('run', run, 'open'),
    closedGroups: (run: string) => key('run', run, 'closed'),
    parked: (run: string) => key('run', run, 'parked'),
    batches: (run: string) => key('run', run, 'batches'),
    batch: (run: string, batch: string) => key('batch', run, batch),
    group: (group: string) => key('group', group),
    episode: (episode: string) => key('episode', episode),
    task: (ref: string) => key('task', ref),
    payload: (episode: string, nonce: string) => key('payload', episode, nonce),
    groups: (run: string) => key('groups', run),
    deliveries: (run: string) => key('deliveries', run),
    gate: (provider: string) => key('gate', provider),
    places: (provider: string) => key('places', provider),
    regrades: (run: string) => key('regrades', run),
    worker: (worker: string) => key('worker', worker),
    queueBase: (queue: string) => key(queue, ''),
  });
}

/**
 * Refuses run and batch ids that could not stand in a key: letters, digits and `._-`, 1 to 128 of them.
 * Throws an Error that names `field`.
 */
export function checkName(field: string, value: string): void {
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(value)) {
    throw new Error(
      `${field} must be 1 to 128 letters, digits, ".", "_" or "-", got ${JSON.stringify(value)}`,
    );
  }
}
