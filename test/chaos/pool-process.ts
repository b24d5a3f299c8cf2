/**
 * A worker process of the chaos tests, forked by processes.ts: a worker, a feeder and a reconciler for each pool it is
 * told to open. It ends or stops itself at a crash point when it is told one.
 */
import { writeSync } from 'node:fs';
import { setCrashHook } from '../../src/observe/index.ts';
import {
  startEpisodeWorker,
  startFeeder,
  startReconciler,
  type EpisodeAttempt,
  type EpisodeOutput,
  type EpisodeProcessor,
  type EpisodeWorker,
} from '../../src/queue/index.ts';
import { infraFailureOf, lane } from '../queue/outputs.ts';
import { actPlainly } from './act-plainly.ts';
import type { FromProcess, OpenPool, ToProcess } from './messages.ts';

interface Opened {
  readonly pool: OpenPool;
  readonly worker: EpisodeWorker;
  readonly parts: AsyncDisposable[];
  readonly go: () => void;
}
const opened = new Map<string, Opened>();

function say(message: FromProcess): void {
  process.send?.(message);
}

function armed({ point, signal }: OpenPool): void {
  if (point === undefined) return;
  setCrashHook((at) => {
    if (at !== point) return;
    setCrashHook(undefined);
    // Before the signal takes effect: this pipe is written synchronously.
    writeSync(1, `at ${point}\n`);
    process.kill(process.pid, signal);
  });
}

async function open(pool: OpenPool): Promise<void> {
  const { name, acts, work_ms: workMs = 0 } = pool;
  const parts: AsyncDisposable[] = [];
  let go = (): void => undefined;
  const gone = new Promise<void>((resolve) => (go = resolve));
  let held = pool.hold === true;
  let actual: EpisodeProcessor = actPlainly;
  if (pool.place !== undefined) {
    // Loaded only where it is wanted: most of these processes live for a moment.
    const { openPlaces } = await import('./act-in-place.ts');
    const places = await openPlaces(pool.place.setting, pool.place.acts, pool.options);
    parts.push(places);
    actual = places.process;
  }
  const act = async (attempt: EpisodeAttempt): Promise<EpisodeOutput> => {
    const { episode_id } = attempt.job;
    say({ said: 'started', name, episode_id, attempt: attempt.attempt, nonce: attempt.nonce });
    if (held) {
      held = false;
      await gone;
    }
    if (acts === 'retry') return infraFailureOf(attempt);
    if (acts === 'handoff') {
      void worker.close({ mode: 'handoff' });
      await aborted(attempt.signal);
      throw attempt.signal.reason as Error;
    }
    if (workMs > 0) {
      let timer: NodeJS.Timeout | undefined;
      const work = new Promise((resolve) => (timer = setTimeout(resolve, workMs)));
      await Promise.race([work, aborted(attempt.signal)]);
      clearTimeout(timer);
      attempt.signal.throwIfAborted();
    }
    return actual(attempt);
  };
  armed(pool);
  if (pool.parts.includes('feeder')) parts.push(await startFeeder(pool.options));
  if (pool.parts.includes('reconciler')) parts.push(await startReconciler(pool.options));
  const worker: EpisodeWorker = await startEpisodeWorker({
    ...pool.options,
    lanes: [lane],
    concurrency: pool.concurrency,
    process: act,
    maxAttempts: 50,
  });
  opened.set(name, { pool, worker, parts, go });
  say({ said: 'opened', name, worker: worker.id });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** The held episode goes on, and the parts that the other process had alone start here too. */
async function goOn(name: string): Promise<void> {
  const { pool, parts, go } = opened.get(name)!;
  go();
  if (!pool.parts.includes('feeder')) parts.push(await startFeeder(pool.options));
  if (!pool.parts.includes('reconciler')) parts.push(await startReconciler(pool.options));
}

async function close(message: Extract<ToProcess, { do: 'close' }>): Promise<void> {
  const { worker, parts } = opened.get(message.name)!;
  opened.delete(message.name);
  await worker.close({ mode: message.mode });
  for (const part of parts.reverse()) await part[Symbol.asyncDispose]();
  say({ said: 'closed', name: message.name });
}

const handlers = {
  open: (message: Extract<ToProcess, { do: 'open' }>) => open(message.pool),
  go: (message: Extract<ToProcess, { do: 'go' }>) => goOn(message.name),
  close,
};

process.on('message', (message: ToProcess) => {
  const handler = handlers[message.do] as (message: ToProcess) => Promise<void>;
  void handler(message);
});
process.on('disconnect', () => process.exit(0));
