import type { Logger } from '../../../observe/index.ts';

const everyMs = 5_000;

/** Writes what changes fast as a line now and then. */
export class ProgressLines {
  readonly #log: Logger;
  readonly #message: string;
  #last = performance.now();

  constructor(log: Logger, message: string) {
    this.#log = log;
    this.#message = message;
  }

  /** A line with these fields, unless the last one (or the beginning) is less than five seconds ago. */
  say(fields: Readonly<Record<string, unknown>>): void {
    const now = performance.now();
    if (now - this.#last < everyMs) return;
    this.#last = now;
    this.#log.info(fields, this.#message);
  }
}
