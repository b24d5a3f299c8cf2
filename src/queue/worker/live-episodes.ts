import type { Lane } from '../../contracts/index.ts';
import type { LiveEpisode } from '../api.ts';
import { AbortCause } from '../processor.ts';

/** One job this process has taken and not yet given back. */
export class LiveJob {
  readonly episode_id: string;
  readonly group_id: string;
  readonly run_id: string;
  readonly lane: Lane;
  /** BullMQ's lock token. */
  readonly token: string;
  readonly nonce: string;
  readonly started_at = Date.now();
  /** 0 until it is claimed. */
  attempt = 0;
  readonly #controller = new AbortController();
  readonly #settled: Promise<void>;
  #settle!: () => void;

  constructor(of: Omit<LiveEpisode, 'attempt' | 'started_at'> & { token: string }) {
    this.episode_id = of.episode_id;
    this.group_id = of.group_id;
    this.run_id = of.run_id;
    this.lane = of.lane;
    this.token = of.token;
    this.nonce = of.nonce;
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why it was aborted; the first cause stays. */
  get cause(): AbortCause | null {
    return this.signal.aborted ? (this.signal.reason as AbortCause) : null;
  }

  /** False when it was aborted before. */
  abort(cause: AbortCause): boolean {
    if (this.signal.aborted) return false;
    this.#controller.abort(cause);
    return true;
  }

  get settled(): Promise<void> {
    return this.#settled;
  }

  settle(): void {
    this.#settle();
  }
}

/** The jobs of this process, by episode; of two copies of one episode, the newer one. */
export class LiveEpisodes {
  readonly #newest = new Map<string, LiveJob>();
  readonly #all = new Set<LiveJob>();

  get size(): number {
    return this.#all.size;
  }

  /** Newest copies only: the lock of a job belongs to its newest token. */
  newest(): IterableIterator<LiveJob> {
    return this.#newest.values();
  }

  all(): IterableIterator<LiveJob> {
    return this.#all.values();
  }

  /** Registers a copy; gives the older copy of the same episode, which is aborted as its twin. */
  enter(job: LiveJob): LiveJob | undefined {
    const twin = this.#newest.get(job.episode_id);
    this.#newest.set(job.episode_id, job);
    this.#all.add(job);
    twin?.abort(new AbortCause('twin', 'a newer copy of this episode was taken by the same process'));
    return twin;
  }

  leave(job: LiveJob): void {
    if (this.#newest.get(job.episode_id) === job) this.#newest.delete(job.episode_id);
    this.#all.delete(job);
    job.settle();
  }

  /** Aborts the jobs that match; the number of those not aborted before. */
  abort(matches: (job: LiveJob) => boolean, cause: AbortCause): number {
    let count = 0;
    for (const job of this.#all) if (matches(job) && job.abort(cause)) count += 1;
    return count;
  }

  /** Resolves when no job is left that was there when called. */
  async allSettled(): Promise<void> {
    await Promise.all([...this.#all].map((job) => job.settled));
  }
}
