import type { Readable } from 'node:stream';

/**
 * Reads a stream to its end and keeps at most `limit` bytes of it: the first half and the last, since a verifier tells
 * its criteria at the end. The stream never stalls.
 */
export function boundedText(stream: Readable, limit: number): () => string {
  const half = Math.floor(limit / 2);
  const head: Buffer[] = [];
  const tail: Buffer[] = [];
  let headBytes = 0;
  let tailBytes = 0;
  let dropped = 0;
  stream.on('data', (chunk: Buffer) => {
    const room = Math.min(half - headBytes, chunk.length);
    if (room > 0) {
      head.push(chunk.subarray(0, room));
      headBytes += room;
    }
    if (room >= chunk.length) return;
    tail.push(chunk.subarray(room));
    tailBytes += chunk.length - room;
    for (let first = tail[0]; first !== undefined && tailBytes - first.length >= half; first = tail[0]) {
      tail.shift();
      tailBytes -= first.length;
      dropped += first.length;
    }
  });
  // The process is killed while it writes: what came is what there is.
  stream.on('error', () => undefined);
  return () => {
    const end = Buffer.concat(tail);
    const excess = Math.max(0, end.length - half);
    const lost = dropped + excess;
    const gap = lost > 0 ? `\n... ${lost} bytes left out ...\n` : '';
    return Buffer.concat(head).toString() + gap + end.subarray(excess).toString();
  };
}
