import type { Logger } from '../../observe/index.ts';
import { reasonOf } from '../sandbox-failure.ts';

const firstLookMs = 1_000;
const longestMs = 10_000;
const shortestMs = 250;
/** A look costs the daemon a walk through the files; this many times its own length lies between two of them: 2% of a core. */
const restFactor = 50;
/** The rest is cut to this where the limit would be met before. */
const longestRestInDangerMs = 3_000;

/** What one look found, and when. */
export interface DiskLook {
  /** How long it took. */
  readonly costMs: number;
  /** Bytes since the look before, and the time since then. */
  readonly grownBytes: number;
  readonly elapsedMs: number;
  /** Bytes that may still be written. */
  readonly leftBytes: number;
  /** What lay between this look and the one before. */
  readonly restMs: number;
}

/** Milliseconds until the next look: ever rarer while nothing is written, and half-way to the limit while something is. */
export function nextLookMs(look: DiskLook): number {
  const cheap = Math.min(longestMs, restFactor * look.costMs);
  const calm = Math.min(longestMs, Math.max(cheap, 2 * look.restMs));
  if (look.grownBytes <= 0) return calm;
  const untilFullMs = (look.leftBytes / look.grownBytes) * look.elapsedMs;
  return Math.min(calm, Math.max(untilFullMs / 2, shortestMs, Math.min(cheap, longestRestInDangerMs)));
}

export interface DiskWatchOptions {
  readonly limitBytes: number;
  /** Bytes written so far; null: looking took so long that it counts as too much. Rejects where it cannot be known. */
  measure(): Promise<number | null>;
  /** Ends whoever writes. */
  onOver(): Promise<void>;
  readonly log: Logger;
}

/**
 * Sees to it that a sandbox writes no more than its disk may hold, where the daemon's file system has no limits of its own.
 * Files that are open and have no name any more are not seen, nor is what an image keeps in volumes.
 */
export class DiskWatch {
  readonly #options: DiskWatchOptions;
  #limit: number;
  #writers = 0;
  #over = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #last = { bytes: 0, at: performance.now() };

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    this.#limit = options.limitBytes;
  }

  /** Whether the limit was ever met. */
  get over(): boolean {
    return this.#over;
  }

  /** Somebody may write from now on, until the function that it gives is called. */
  begin(): () => void {
    this.#writers += 1;
    if (this.#timer === undefined) this.#schedule(firstLookMs);
    let ended = false;
    return () => {
      // The look that is due still comes: short commands one after the other are seen as well.
      if (!ended) this.#writers -= 1;
      ended = true;
    };
  }

  /** Looks no more. Resolves when no look is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #schedule(restMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look(restMs);
    }, restMs);
    this.#timer.unref();
  }

  async #look(restMs: number): Promise<void> {
    const startedAt = performance.now();
    let next = longestMs;
    try {
      const bytes = await this.#options.measure();
      const now = performance.now();
      if (this.#stopped) return;
      if (bytes === null || bytes > this.#limit) await this.#end(bytes);
      next = nextLookMs({
        costMs: now - startedAt,
        grownBytes: (bytes ?? 0) - this.#last.bytes,
        elapsedMs: Math.max(1, startedAt - this.#last.at),
        leftBytes: Math.max(0, this.#limit - (bytes ?? 0)),
        restMs,
      });
      this.#last = { bytes: bytes ?? 0, at: startedAt };
    } catch (error) {
      // A sandbox that is gone, or a daemon that does not answer, is found out by those who use it.
      this.#options.log.debug({ why: reasonOf(error) }, 'the disk of a sandbox was not looked at');
    }
    this.#timer = undefined;
    if (this.#writers > 0) this.#schedule(next);
  }

  /** What was written stays until the sandbox goes; who comes after the agent, the verifier, may write as much again. */
  async #end(bytes: number | null): Promise<void> {
    this.#over = true;
    this.#options.log.warn({ bytes, limit: this.#limit }, 'a sandbox wrote more than its disk may hold');
    await this.#options.onOver();
    const after = await this.#options.measure().catch(() => null);
    this.#limit = (after ?? bytes ?? this.#limit) + this.#options.limitBytes;
  }
}
