import { statfs } from 'node:fs/promises';
import type { Logger } from '../../observe/index.ts';
import { infraFailure } from '../sandbox-failure.ts';
import type { HostFacts } from './host-facts.ts';

const mebibyte = 2 ** 20;
/** A look is good for so long: five hundred episodes that start do not look five hundred times. */
const looksEveryMs = 3_000;

export interface WatermarkOptions {
  /** Megabytes (2^20) that must be free; 0: not looked at. */
  readonly freeMb: number;
  readonly host: () => Promise<HostFacts>;
  /** Frees space until `enough` says so, as far as it may. */
  readonly reclaim: (enough: () => Promise<boolean>) => Promise<unknown>;
  readonly log: Logger;
}

/** Lets nothing begin where the daemon's disk is nearly full: an episode that fills the last of it breaks all the others. */
export class DiskWatermark {
  readonly #options: WatermarkOptions;
  #look: Promise<void> | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #said = false;

  constructor(options: WatermarkOptions) {
    this.#options = options;
  }

  /** Resolves when there is space. Rejects (infra, `disk_full`) when there is not, with its numbers. */
  async ensure(): Promise<void> {
    if (this.#options.freeMb === 0) return;
    if (this.#look === undefined || performance.now() - this.#lookedAt > looksEveryMs) {
      this.#lookedAt = Number.POSITIVE_INFINITY;
      this.#look = this.#check().finally(() => {
        this.#lookedAt = performance.now();
      });
    }
    await this.#look;
  }

  async #check(): Promise<void> {
    const { freeMb, log } = this.#options;
    const { dataDirectory } = await this.#options.host();
    if (dataDirectory === null) {
      this.#sayOnce('the disk of the Docker daemon is on another machine: its free space is not looked at');
      return;
    }
    let free = await this.#freeMb(dataDirectory);
    if (free === null || free >= freeMb) return;
    log.warn({ free_mb: free, wanted_mb: freeMb, directory: dataDirectory }, 'little disk space');
    await this.#options.reclaim(async () => {
      free = await this.#freeMb(dataDirectory);
      return free === null || free >= freeMb;
    });
    if (free >= freeMb) return;
    throw infraFailure(
      'disk_full',
      `${free} MB are free in ${dataDirectory} (Docker's data), and ${freeMb} MB must be before anything starts ` +
        '(ROLLPOOL_DISK_FREE_MB)',
      { phase: 'boot' },
    );
  }

  /** Megabytes free to others than root; null when they cannot be counted. */
  async #freeMb(directory: string): Promise<number | null> {
    try {
      const { bavail, bsize } = await statfs(directory);
      return Math.floor((bavail * bsize) / mebibyte);
    } catch {
      this.#sayOnce(`the free space of ${directory} (Docker's data) cannot be looked at`);
      return null;
    }
  }

  #sayOnce(text: string): void {
    if (this.#said) return;
    this.#said = true;
    this.#options.log.warn(text);
  }
}
