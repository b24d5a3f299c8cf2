import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { ResultSummary } from '../contracts/index.ts';
import { decodePayload, toResultLine } from '../trajectory/index.ts';

/** A file of results, one JSON line each. It is written anew: the queue knows every result of a run. */
export interface ResultFile extends AsyncDisposable {
  readonly path: string;
  /** Resolves when there is room for more. `payload` is the encoded sequences and trace; null when there are none. */
  write(summary: ResultSummary, payload: Uint8Array | null): Promise<void>;
  close(): Promise<void>;
}

export async function openResultFile(path: string): Promise<ResultFile> {
  await mkdir(dirname(path), { recursive: true });
  const stream: WriteStream = createWriteStream(path);
  // A full disk shows at the next write or at close; without a listener it would end the process here.
  stream.on('error', () => {});
  await once(stream, 'open');
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
      const line = toResultLine(summary, payload === null ? null : decodePayload(payload));
      if (!stream.write(`${JSON.stringify(line)}\n`)) await once(stream, 'drain');
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
