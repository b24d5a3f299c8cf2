import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { access, constants, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResultSummary } from '../contracts/index.ts';
import { decodePayload, toResultLine } from '../trajectory/index.ts';
import { BadUse } from './bad-use.ts';

/** A file of results, one JSON line each. It is written anew: the queue knows every result of a run. */
export interface ResultFile extends AsyncDisposable {
  readonly path: string;
  /** Resolves when there is room for more. `payload` is the encoded sequences and trace; null when there are none. */
  write(summary: ResultSummary, payload: Uint8Array | null): Promise<void>;
  close(): Promise<void>;
}

/** Makes the directory of `--out` and gives the path of its results; BadUse when nothing could be written there. */
export async function prepareOut(directory: string): Promise<string> {
  const path = join(directory, 'results.jsonl');
  try {
    await mkdir(directory, { recursive: true });
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new BadUse(`--out ${directory}: cannot be written (${code})`, { cause });
  }
  return path;
}

/** The line of a result: its summary, sequences and trace. */
export function resultLine(summary: ResultSummary, payload: Uint8Array | null): string {
  return `${JSON.stringify(toResultLine(summary, payload === null ? null : decodePayload(payload)))}\n`;
}

/** Opens the file at a path of `prepareOut`. */
export async function openResultFile(path: string): Promise<ResultFile> {
  const stream: WriteStream = createWriteStream(path);
  try {
    await once(stream, 'open');
  } catch (cause) {
    throw new BadUse(`${path}: cannot be written (${(cause as NodeJS.ErrnoException).code})`, { cause });
  }
  // A full disk shows at the next write or at close; without a listener it would end the process here.
  stream.on('error', () => {});
  const close = async (): Promise<void> => {
    if (stream.closed) return;
    await new Promise<void>((resolve, reject) => {
      stream.once('close', resolve);
      stream.once('error', reject);
      stream.end();
    });
  };
  return {
    path,
    async write(summary, payload) {
      if (stream.errored) throw stream.errored;
      if (!stream.write(resultLine(summary, payload))) await once(stream, 'drain');
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
