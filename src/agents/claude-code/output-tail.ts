/** The last part of an output, with secrets taken out. */
export interface OutputTail {
  push(chunk: Uint8Array): void;
  /** At most `maxChars` characters: the last ones. */
  text(): string;
}

const mark = '[redacted]';

/** Replaces every occurrence of every secret. */
export function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, secret) => (secret === '' ? left : left.replaceAll(secret, mark)), text);
}

/**
 * Keeps the end of a stream in bounded memory. A secret cut in two at the front of what was kept is dropped with its
 * surroundings, so that no part of it is left.
 */
export function createOutputTail(maxChars: number, secrets: readonly string[] = []): OutputTail {
  const guard = Math.max(0, ...secrets.map((secret) => Buffer.byteLength(secret) - 1));
  const keep = maxChars * 4 + guard;
  let chunks: Uint8Array[] = [];
  let held = 0;
  let truncated = false;

  const compact = (): Buffer => {
    let joined = Buffer.concat(chunks);
    if (joined.length > keep) {
      joined = Buffer.from(joined.subarray(joined.length - keep));
      truncated = true;
    }
    chunks = [joined];
    held = joined.length;
    return joined;
  };

  return {
    push(chunk) {
      chunks.push(chunk);
      held += chunk.length;
      if (held > 2 * keep) compact();
    },
    text() {
      const clean = redact(compact().toString('utf8'), secrets);
      const whole = truncated ? clean.slice(guard) : clean;
      return whole.slice(-maxChars);
    },
  };
}
