import { appendFile, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../observe/index.ts';

/** Characters that may wait to be written. A disk slower than that loses lines, never calls. */
const waitingLimit = 8 * 2 ** 20;
/** After a failed write nothing is written for this long. */
const restMs = 10_000;
/** How long closing waits for what is still to be written. */
const closeMs = 2_000;

export interface TraceWriterOptions {
  readonly log: Logger;
  /** Told of bytes written. */
  readonly written: (bytes: number) => void;
  /** Default: 10 s. */
  readonly restMs?: number;
  /** Default: 8 Mi characters. */
  readonly waitingLimit?: number;
}

/**
 * Appends lines to files, in order, in the background. Nothing here ever waits for the disk or throws at who records: what
 * cannot be written is dropped and counted, and said in one line of the log.
 */
export class TraceWriter implements AsyncDisposable {
  readonly #options: TraceWriterOptions;
  readonly #waiting = new Map<string, string[]>();
  /** Files whose last write failed, perhaps in the middle of a line. */
  readonly #torn = new Set<string>();
  #length = 0;
  #draining: Promise<void> | null = null;
  #restUntil = 0;
  #dropped = 0;
  /** Lines dropped in the trouble that was said and is not over. */
  #lost = 0;

  constructor(options: TraceWriterOptions) {
    this.#options = options;
  }

  /** Lines dropped so far. */
  get dropped(): number {
    return this.#dropped;
  }

  append(path: string, line: string): void {
    if (performance.now() < this.#restUntil) return this.#drop(1, null);
    if (this.#length + line.length > (this.#options.waitingLimit ?? waitingLimit)) {
      return this.#drop(1, 'the disk is slower than the calls');
    }
    this.#length += line.length;
    const lines = this.#waiting.get(path);
    if (lines === undefined) this.#waiting.set(path, [line]);
    else lines.push(line);
    this.#draining ??= this.#drain();
  }

  /** Resolves when all that was given is written or dropped. */
  async settled(): Promise<void> {
    while (this.#draining !== null) await this.#draining;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.race([this.settled(), sleep(closeMs, undefined, { ref: false })]);
  }

  async #drain(): Promise<void> {
    for (;;) {
      const next = this.#waiting.entries().next();
      if (next.done === true) break;
      const [path, lines] = next.value;
      this.#waiting.delete(path);
      const text = lines.join('');
      this.#length -= text.length;
      await this.#write(path, text, lines.length);
    }
    this.#draining = null;
  }

  async #write(path: string, text: string, lines: number): Promise<void> {
    if (performance.now() < this.#restUntil) return this.#drop(lines, null);
    const bytes = Buffer.from(this.#torn.has(path) ? `\n${text}` : text);
    try {
      await append(path, bytes);
    } catch (fault) {
      this.#torn.add(path);
      this.#restUntil = performance.now() + (this.#options.restMs ?? restMs);
      return this.#drop(lines, String((fault as NodeJS.ErrnoException).code ?? fault));
    }
    this.#torn.delete(path);
    this.#options.written(bytes.length);
    if (this.#lost === 0) return;
    this.#options.log.info({ lines_lost: this.#lost }, 'the flight recorder writes again');
    this.#lost = 0;
  }

  #drop(lines: number, why: string | null): void {
    if (this.#lost === 0 && why !== null) {
      this.#options.log.warn({ why }, 'the flight recorder loses lines: calls go on without it');
    }
    this.#dropped += lines;
    this.#lost += lines;
  }
}

/** A run's directory may be new, or may have been swept meanwhile. */
async function append(path: string, bytes: Buffer): Promise<void> {
  const options = { mode: 0o600 };
  try {
    await appendFile(path, bytes, options);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'ENOENT') throw fault;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await appendFile(path, bytes, options);
  }
}
