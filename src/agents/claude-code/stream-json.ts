const newline = 0x0a;

export interface JsonLinesStats {
  /** Lines that were JSON objects. */
  readonly events: number;
  /** Lines that were something else: warnings, half lines of a killed process. */
  readonly garbage: number;
  /** Lines longer than the bound, dropped. */
  readonly oversized: number;
  readonly bytes: number;
}

/** Reads `--output-format stream-json`: one JSON object a line. */
export interface StreamJsonParser {
  push(chunk: Uint8Array): void;
  /** The stream has ended: a last line without a newline counts. */
  end(): void;
  stats(): JsonLinesStats;
}

/** Tool results of the CLI are at most some 30 KB of text, but a read image or a long final answer may be megabytes. */
const defaultMaxLineBytes = 16 * 1024 * 1024;

/**
 * Splits bytes, not text, at newlines, so that a chunk may end anywhere, inside a character too. What is no JSON object
 * is counted and skipped: the CLI's outcome must not depend on what a tool managed to print. Memory is bounded by
 * `maxLineBytes` (default 16 MiB).
 */
export function createStreamJsonParser(
  onEvent: (event: Readonly<Record<string, unknown>>) => void,
  maxLineBytes: number = defaultMaxLineBytes,
): StreamJsonParser {
  let parts: Uint8Array[] = [];
  let length = 0;
  let dropping = false;
  const counts = { events: 0, garbage: 0, oversized: 0, bytes: 0 };

  const take = (piece: Uint8Array): void => {
    if (dropping || piece.length === 0) return;
    if (length + piece.length > maxLineBytes) {
      parts = [];
      length = 0;
      dropping = true;
      counts.oversized += 1;
      return;
    }
    // A copy: the chunk's memory belongs to the stream.
    parts.push(Uint8Array.prototype.slice.call(piece));
    length += piece.length;
  };

  const finishLine = (): void => {
    const line = dropping ? '' : Buffer.concat(parts).toString('utf8').trim();
    parts = [];
    length = 0;
    dropping = false;
    if (line === '') return;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      counts.garbage += 1;
      return;
    }
    if (value === null || typeof value !== 'object' || Array.isArray(value)) {
      counts.garbage += 1;
      return;
    }
    counts.events += 1;
    onEvent(value as Record<string, unknown>);
  };

  return {
    push(chunk) {
      counts.bytes += chunk.length;
      let from = 0;
      for (;;) {
        const at = chunk.indexOf(newline, from);
        if (at === -1) break;
        take(chunk.subarray(from, at));
        finishLine();
        from = at + 1;
      }
      take(chunk.subarray(from));
    },
    end: finishLine,
    stats: () => ({ ...counts }),
  };
}
