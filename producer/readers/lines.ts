import { createReadStream } from 'node:fs';
import { cannotRead } from '../tasks-file-error.ts';

/** One line of a file, without its end; null in place of the bytes of one that is too long to be held. */
export interface Line {
  /** From 1. */
  readonly number: number;
  readonly bytes: Buffer | null;
}

/**
 * The lines of a file, one in memory at a time. Only a line feed ends a line: Node's readline also splits at U+2028,
 * which may stand unescaped inside a JSON string.
 */
export async function* linesOf(path: string, longest: number, signal?: AbortSignal): AsyncIterable<Line> {
  const stream = createReadStream(path, {
    highWaterMark: 2 ** 18,
    ...(signal === undefined ? {} : { signal }),
  });
  let number = 0;
  let held: Buffer[] = [];
  let length = 0;
  const take = (): Line => {
    const bytes = length > longest ? null : Buffer.concat(held);
    held = [];
    length = 0;
    number += 1;
    return { number, bytes };
  };
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let start = 0;
      for (;;) {
        const end = chunk.indexOf(0x0a, start);
        const part = chunk.subarray(start, end === -1 ? undefined : end);
        length += part.length;
        if (length > longest) held = [];
        else if (part.length > 0) held.push(part);
        if (end === -1) break;
        yield take();
        start = end + 1;
      }
    }
  } catch (fault) {
    if (signal?.aborted) throw fault;
    throw cannotRead(path, fault);
  }
  if (length > 0) yield take();
}
