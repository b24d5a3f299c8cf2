import type { EpisodeWorker, LiveEpisode, QueueOptions } from '../api.ts';
import { silentLogger } from '../../observe/index.ts';
import { connectPatient, disconnect } from '../connection.ts';
import { queueNames } from '../names.ts';
import { AbortCause } from '../processor.ts';
import { parseControlMessage, type ControlMessage } from './control-message.ts';
import { parsePolicyRecord } from './policy-record.ts';
import { PolicyView } from './policy-view.ts';

type Steerable = Pick<EpisodeWorker, 'live' | 'abortEpisode' | 'abortGroup' | 'abortRun'>;

export interface ControlListenerOptions extends QueueOptions {
  /** Milliseconds between two looks at the keys behind the messages. Default: 3000. */
  readonly pollMs?: number;
}

/** Hears what control says, in a process with workers. */
export interface ControlListener extends AsyncDisposable {
  /** A PolicyState for the gateway of this process. */
  readonly policy: PolicyView;
  /** Ends episodes of this worker when control says so, until the result is disposed. */
  attach(worker: Steerable): Disposable;
  close(): Promise<void>;
}

/**
 * Listens on the control channel and, as messages can be lost, looks at the keys behind them every `pollMs` and after
 * every reconnect. It knows the policy's state when the promise resolves. Rejects with RedisUnreachableError.
 */
export async function startControlListener(options: ControlListenerOptions): Promise<ControlListener> {
  const { redisUrl, log = silentLogger, pollMs = 3_000 } = options;
  const names = queueNames(options.prefix);
  const policy = new PolicyView();
  const workers = new Set<Steerable>();
  let messages = 0;
  let closing = false;

  const endAll = (target: 'run' | 'group' | 'episode', id: string, cause: AbortCause): void => {
    for (const worker of workers) {
      const abort = { run: worker.abortRun, group: worker.abortGroup, episode: worker.abortEpisode }[target];
      const ended = abort.call(worker, id, cause);
      if (ended > 0)
        log.info({ [`${target}_id`]: id, ended, reason: cause.kind }, 'episodes ended by control');
    }
  };

  const connection = { redisUrl, log };
  const redis = await connectPatient({ ...connection, name: 'rollpool-control' });
  const subscriber = await connectPatient({ ...connection, name: 'rollpool-control-messages' }).catch(
    async (fault: unknown) => {
      await disconnect(redis);
      throw fault;
    },
  );

  const pollPolicy = async (): Promise<void> => {
    const before = messages;
    const record = parsePolicyRecord(await redis.get(names.policy));
    // A message that came while we asked is newer than the answer. Otherwise the key is right, even when its revision
    // went back because Redis lost its last second.
    if (messages === before) policy.update(record);
  };

  const pollEnds = async (): Promise<void> => {
    const live = [...workers].flatMap((worker) => worker.live());
    if (live.length === 0) return;
    const asked = targetsOf(live);
    const pipeline = redis.pipeline();
    for (const { target, id } of asked) pipeline.hget(names[target](id), 'ended');
    const replies = (await pipeline.exec()) ?? [];
    for (const [index, { target, id }] of asked.entries()) {
      const reason = replies[index]?.[1];
      if (reason === 'cancelled' || reason === 'stale') endAll(target, id, new AbortCause(reason));
    }
  };

  let polling: Promise<void> | null = null;
  const poll = (): Promise<void> =>
    (polling ??= Promise.all([pollPolicy(), pollEnds()])
      .then(
        () => {},
        (fault: unknown) => {
          if (!closing) log.warn({ err: String(fault) }, 'control poll');
        },
      )
      .finally(() => {
        polling = null;
      }));

  const hear = (message: ControlMessage): void => {
    if (message.type === 'end') {
      endAll(message.target, message.id, new AbortCause(message.reason));
    } else if (message.state.revision > policy.record.revision) {
      messages += 1;
      policy.update(message.state);
    } else {
      void poll();
    }
  };
  subscriber.on('message', (_channel: string, text: string) => {
    const message = parseControlMessage(text);
    if (message !== null) hear(message);
  });
  const timer = setInterval(() => void poll(), pollMs);
  timer.unref();
  let closed: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    closing = true;
    clearInterval(timer);
    // A poll under way is not waited for: while Redis is away its commands are never answered.
    await Promise.all([disconnect(subscriber), disconnect(redis)]);
  };
  try {
    await subscriber.subscribe(names.controlChannel);
    await pollPolicy();
  } catch (fault) {
    await close();
    throw fault;
  }
  subscriber.on('ready', () => void poll());
  return {
    policy,
    attach: (worker) => {
      workers.add(worker);
      // What was said before there was a worker to hear it.
      void poll();
      return { [Symbol.dispose]: () => void workers.delete(worker) };
    },
    close: () => (closed ??= close()),
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

/** The runs, groups and episodes that are live, each once. */
function targetsOf(live: readonly LiveEpisode[]): { target: 'run' | 'group' | 'episode'; id: string }[] {
  const ids = (pick: (episode: LiveEpisode) => string): string[] => [...new Set(live.map(pick))];
  return [
    ...ids((episode) => episode.run_id).map((id) => ({ target: 'run' as const, id })),
    ...ids((episode) => episode.group_id).map((id) => ({ target: 'group' as const, id })),
    ...ids((episode) => episode.episode_id).map((id) => ({ target: 'episode' as const, id })),
  ];
}
