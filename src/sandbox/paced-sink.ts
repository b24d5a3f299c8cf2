import type { PassThrough } from 'node:stream';

/** Takes a chunk; a promise holds whoever gives it back until it resolves. */
export type Sink = (chunk: Buffer) => void | Promise<void>;

/** Takes what a stream can hold and waits for its reader then. A stream that was closed takes everything. */
export function pacedSink(stream: PassThrough): Sink {
  return (chunk) => {
    if (stream.destroyed || stream.write(chunk)) return;
    return new Promise<void>((resolve) => {
      const done = (): void => {
        stream.off('drain', done);
        stream.off('close', done);
        resolve();
      };
      stream.on('drain', done);
      stream.on('close', done);
    });
  };
}
