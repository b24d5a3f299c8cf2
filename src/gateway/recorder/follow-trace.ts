import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TraceFile } from './read-trace.ts';
import type { TraceLine } from './trace-line.ts';
import { TraceReading } from './trace-reading.ts';

/** Bytes that are read at once: a trace may be far larger than what is shown of it. */
const pieceBytes = 2 ** 20;
const lineFeed = 0x0a;

/** The whole lines of a file that grows, each once. */
class TraceTail {
  readonly #path: string;
  #offset = 0;
  #begun: Buffer = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
  }

  /** Lines that were completed since the last time; null when there is nothing new at all. */
  async more(): Promise<readonly string[] | null> {
    await using file = await open(this.#path, 'r');
    const piece = Buffer.allocUnsafe(pieceBytes);
    const { bytesRead } = await file.read(piece, 0, pieceBytes, this.#offset);
    if (bytesRead === 0) return null;
    this.#offset += bytesRead;
    const bytes = Buffer.concat([this.#begun, piece.subarray(0, bytesRead)]);
    const whole = bytes.lastIndexOf(lineFeed) + 1;
    this.#begun = bytes.subarray(whole);
    return bytes.toString('utf8', 0, whole).split('\n').slice(0, -1);
  }
}

/** What was added to an attempt's trace. */
export interface TraceStep {
  readonly file: TraceFile;
  /** All of it so far. */
  readonly reading: TraceReading;
  /** Those lines that could be read. */
  readonly lines: readonly TraceLine[];
  /** Said once: nothing is added, and the process that would do it is not there any more. */
  readonly abandoned: boolean;
}

export interface FollowOptions {
  /** The newest attempt that is there; null while there is none. */
  readonly find: () => Promise<TraceFile | null>;
  /** Ends the following. */
  readonly signal: AbortSignal;
  /** Between two looks at the file. A fifth of that for new files. Default: 200 ms. */
  readonly pollMs?: number;
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (fault) {
    return (fault as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/**
 * An episode's newest trace from its beginning, and what is added to it, until its `end` or the signal. Goes over to a
 * newer attempt when there is one: the one before was cut short. Rejects with ENOENT when the file is removed meanwhile.
 */
export async function* followTrace({ find, signal, pollMs = 200 }: FollowOptions): AsyncGenerator<TraceStep> {
  const pause = (): Promise<unknown> => sleep(pollMs, undefined, { signal }).catch(() => undefined);
  let file = await find();
  while (file === null) {
    await pause();
    if (signal.aborted) return;
    file = await find();
  }
  for (;;) {
    const followed: TraceFile = file;
    const tail = new TraceTail(followed.path);
    const reading = new TraceReading();
    let newest: TraceFile = followed;
    let abandoned = false;
    for (let looks = 1; ; looks++) {
      const texts = await tail.more();
      if (texts !== null) {
        const lines = texts.map((text) => reading.add(text)).filter((line) => line !== null);
        yield { file: followed, reading, lines, abandoned: false };
        if (lines.some(({ type }) => type === 'end')) return;
      } else if (newest.path !== followed.path) {
        break;
      } else {
        await pause();
      }
      if (signal.aborted) return;
      if (texts !== null || looks % 5 !== 0) continue;
      newest = (await find()) ?? followed;
      const { episode } = reading.soFar();
      if (!abandoned && newest.path === followed.path && episode !== null && isGone(episode.pid)) {
        abandoned = true;
        yield { file: followed, reading, lines: [], abandoned };
      }
    }
    file = newest;
  }
}
