import type { Readable } from 'node:stream';
import type { Sink } from '../paced-sink.ts';

/**
 * Splits Docker's one stream into stdout and stderr: frames of [stream, 0, 0, 0, length (4 bytes, big endian)] and the
 * bytes (Docker Engine API, "Attach to a container"). Resolves when the stream has ended, however it ended.
 */
export async function demultiplex(stream: Readable, sinks: { stdout: Sink; stderr: Sink }): Promise<void> {
  const header = Buffer.alloc(8);
  let headerLength = 0;
  let left = 0;
  try {
    for await (const data of stream) {
      let chunk = data as Buffer;
      while (chunk.length > 0) {
        if (left === 0) {
          const taken = chunk.copy(header, headerLength, 0, 8 - headerLength);
          headerLength += taken;
          chunk = chunk.subarray(taken);
          if (headerLength < 8) continue;
          headerLength = 0;
          left = header.readUInt32BE(4);
          continue;
        }
        const part = chunk.subarray(0, left);
        chunk = chunk.subarray(part.length);
        left -= part.length;
        await (header[0] === 2 ? sinks.stderr(part) : sinks.stdout(part));
      }
    }
  } catch {
    // A stream that broke is over; who reads it asks the daemon how the process ended.
  }
}
