import type { CrashPoint } from '../../src/observe/index.ts';
import type { QueueOptions } from '../../src/queue/index.ts';
import type { PlaceSetting } from './act-in-place.ts';
import type { Acts, ActsInPlace, Passing } from './crash-table.ts';

/** One pool as a worker process opens it. */
export interface OpenPool {
  readonly name: string;
  readonly options: Omit<QueueOptions, 'log'>;
  readonly acts: Acts;
  readonly parts: readonly Passing['part'][];
  readonly concurrency: number;
  /** Where it ends or stops itself; absent: nowhere. */
  readonly point?: CrashPoint;
  readonly signal: 'SIGKILL' | 'SIGSTOP';
  /** Keeps its first episode until it is told to go on. Default: false. */
  readonly hold?: boolean;
  /** Milliseconds an episode takes at least. Default: 0. */
  readonly work_ms?: number;
  /** For episodes that act somewhere. */
  readonly place?: { readonly acts: ActsInPlace; readonly setting: PlaceSetting };
}

export type ToProcess =
  | { readonly do: 'open'; readonly pool: OpenPool }
  | { readonly do: 'go'; readonly name: string }
  | { readonly do: 'close'; readonly name: string; readonly mode: 'handoff' | 'drain' | 'now' };

export type FromProcess =
  | { readonly said: 'opened'; readonly name: string; readonly worker: string }
  | {
      readonly said: 'started';
      readonly name: string;
      readonly episode_id: string;
      readonly attempt: number;
      readonly nonce: string;
    }
  | { readonly said: 'closed'; readonly name: string };
