import { setTimeout as sleep } from 'node:timers/promises';
import type { CallFate, CallRecord, Role } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import type { SessionStats } from '../session.ts';
import { lineText } from './line-text.ts';
import { sweepTraces } from './retention.ts';
import { callLine, traceSchema, type CallDetail, type TraceLine } from './trace-line.ts';
import { tracePath } from './trace-path.ts';
import { TraceWriter } from './trace-writer.ts';

export interface FlightRecorderOptions {
  /** Made when the first episode is recorded. */
  readonly directory: string;
  /** Bytes on disk of all traces together, about. Default: 1 GiB. */
  readonly limitBytes?: number;
  /** A trace that nothing was added to for so long goes. Default: 7 days. */
  readonly maxAgeMs?: number;
  /** Texts that are never written. */
  readonly secrets?: readonly string[];
  /** Name of this worker. Default: none. */
  readonly worker?: string;
  readonly log: Logger;
  /** Between two looks at what is there. Default: 10 minutes, and whenever a sixteenth of the limit was written. */
  readonly sweepMs?: number;
  /** After a failed write nothing is written for this long. Default: 10 s. */
  readonly restMs?: number;
}

/** One attempt's part of the flight recorder. Its methods return at once and never throw. */
export interface EpisodeTrace {
  /** A further text that is never to be written. */
  hide(secret: string): void;
  begin(call: {
    readonly index: number;
    readonly agent_id: string;
    readonly role: Role;
    /** Default: none, for a call from inside this process. */
    readonly request_id?: string;
    readonly tools: readonly string[];
  }): void;
  /** A request that repeats an earlier one was given its call. */
  joined(request: { readonly request_id: string; readonly begun_by: string }): void;
  /** A request that no call was made for. */
  refused(request: { readonly request_id: string; readonly message: string }): void;
  call(record: CallRecord, detail: CallDetail): void;
  fate(index: number, fate: CallFate): void;
  end(stats: SessionStats): void;
}

/** Of an episode that nobody records. */
export const noTrace: EpisodeTrace = {
  hide() {},
  begin() {},
  joined() {},
  refused() {},
  call() {},
  fate() {},
  end() {},
};

/** Keeps what episodes' calls were, on this machine's disk, so that a crash can be explained. */
export interface FlightRecorder extends AsyncDisposable {
  open(episode: {
    readonly run_id: string | null;
    readonly episode_id: string;
    readonly attempt: number;
    readonly model: string;
  }): EpisodeTrace;
  /** Lines lost to a full or slow disk. */
  readonly dropped: number;
  /** Resolves when all that was recorded is written. */
  settled(): Promise<void>;
}

type Episode = Parameters<FlightRecorder['open']>[0];

/** One episode has at most this share of the limit. */
const shareOfAnEpisode = 1 / 8;
const sweepShare = 1 / 16;
/** Refused requests of one episode that are written: an agent may ask for ever, and its calls are to be seen. */
const refusalsKept = 200;

export function createFlightRecorder(options: FlightRecorderOptions): FlightRecorder {
  return new DiskRecorder(options);
}

class DiskRecorder implements FlightRecorder {
  readonly #options: FlightRecorderOptions;
  readonly #bounds: { readonly limitBytes: number; readonly maxAgeMs: number };
  readonly #writer: TraceWriter;
  readonly #timer: NodeJS.Timeout;
  #sinceSweep = 0;
  #sweeping: Promise<void> | null = null;

  constructor(options: FlightRecorderOptions) {
    const { limitBytes = 2 ** 30, maxAgeMs = 7 * 24 * 3_600_000, sweepMs = 600_000, restMs } = options;
    this.#options = options;
    // What is written until the next sweep goes on top.
    this.#bounds = { limitBytes: limitBytes * (1 - sweepShare), maxAgeMs };
    this.#writer = new TraceWriter({
      log: options.log,
      written: (bytes) => {
        this.#sinceSweep += bytes;
        if (this.#sinceSweep >= limitBytes * sweepShare) this.#sweep();
      },
      ...(restMs === undefined ? {} : { restMs }),
    });
    this.#timer = setInterval(() => this.#sweep(), sweepMs).unref();
    this.#sweep();
  }

  get dropped(): number {
    return this.#writer.dropped;
  }

  open(episode: Episode): EpisodeTrace {
    const { directory, limitBytes = 2 ** 30, secrets = [], worker = null } = this.#options;
    const path = tracePath(directory, episode.run_id, episode.episode_id, episode.attempt);
    return new DiskTrace(episode, worker, secrets, limitBytes * shareOfAnEpisode, (line) =>
      this.#writer.append(path, line),
    );
  }

  async settled(): Promise<void> {
    await this.#writer.settled();
    while (this.#sweeping !== null) await this.#sweeping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#writer[Symbol.asyncDispose]();
    await Promise.race([this.#sweeping, sleep(1_000, undefined, { ref: false })]);
  }

  #sweep(): void {
    if (this.#sweeping !== null) return;
    this.#sinceSweep = 0;
    this.#sweeping = sweepTraces(this.#options.directory, this.#bounds)
      .catch((err: unknown) => this.#options.log.debug({ err }, 'old traces were not removed'))
      .finally(() => {
        this.#sweeping = null;
      });
  }
}

class DiskTrace implements EpisodeTrace {
  readonly #episode: Episode;
  readonly #worker: string | null;
  readonly #secrets: string[];
  readonly #write: (line: string) => void;
  #left: number;
  #begun = false;
  #cut = false;
  #refusals = 0;
  #tools = '';

  constructor(
    episode: Episode,
    worker: string | null,
    secrets: readonly string[],
    share: number,
    write: (line: string) => void,
  ) {
    this.#episode = episode;
    this.#worker = worker;
    this.#secrets = [...secrets].filter((secret) => secret !== '');
    this.#left = share;
    this.#write = write;
  }

  hide(secret: string): void {
    this.#secrets.push(secret);
  }

  begin(call: Parameters<EpisodeTrace['begin']>[0]): void {
    const tools = call.tools.join('\n');
    const changed = tools !== this.#tools;
    this.#tools = tools;
    this.#add({
      type: 'begin',
      call: call.index,
      agent_id: call.agent_id,
      role: call.role,
      at: Date.now(),
      ...(call.request_id === undefined ? {} : { request_id: call.request_id }),
      ...(changed ? { tools: call.tools } : {}),
    });
  }

  joined({ request_id, begun_by }: Parameters<EpisodeTrace['joined']>[0]): void {
    this.#add({ type: 'joined', request_id, begun_by, at: Date.now() });
  }

  refused({ request_id, message }: Parameters<EpisodeTrace['refused']>[0]): void {
    if (this.#refusals++ >= refusalsKept) return;
    this.#add({ type: 'refused', request_id, message, at: Date.now() });
  }

  call(...[record, detail]: Parameters<EpisodeTrace['call']>): void {
    this.#add(callLine(record, detail));
  }

  fate(index: number, fate: CallFate): void {
    this.#add({ type: 'fate', call: index, fate, at: Date.now() });
  }

  end({ failure, ...stats }: SessionStats): void {
    this.#add({ type: 'end', at: Date.now(), stats, failure });
  }

  #add(line: TraceLine): void {
    if (!this.#begun) {
      this.#begun = true;
      const { run_id, episode_id, attempt, model } = this.#episode;
      this.#add({
        type: 'episode',
        schema: traceSchema,
        run_id,
        episode_id,
        attempt,
        worker: this.#worker,
        pid: process.pid,
        model,
        at: Date.now(),
      });
    }
    if (this.#cut && line.type !== 'end') return;
    const text = this.#text(line);
    if (text === null) return;
    this.#left -= text.length;
    if (this.#left < 0 && !this.#cut) {
      this.#cut = true;
      this.#write(lineText({ type: 'cut', at: Date.now() }));
      if (line.type !== 'end') return;
    }
    this.#write(text);
  }

  #text(line: TraceLine): string | null {
    try {
      return lineText(line, this.#secrets);
    } catch {
      // Nested deeper than the stack: what an agent sends must not end its call here.
      return null;
    }
  }
}
