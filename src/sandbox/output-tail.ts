/** Keeps the last `limit` bytes of a stream, however much was written. */
export class OutputTail {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #kept = 0;
  #written = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes written so far, kept or not. */
  get written(): number {
    return this.#written;
  }

  push(chunk: Uint8Array): void {
    this.#written += chunk.byteLength;
    if (this.#limit === 0) return;
    // Copied, as a small view would keep the whole buffer it was read into.
    this.#chunks.push(Buffer.from(chunk.subarray(Math.max(0, chunk.byteLength - this.#limit))));
    this.#kept += Math.min(chunk.byteLength, this.#limit);
    while (this.#chunks.length > 1 && this.#kept - this.#chunks[0]!.byteLength >= this.#limit) {
      this.#kept -= this.#chunks.shift()!.byteLength;
    }
    // Many tiny writes must not cost an object each.
    if (this.#chunks.length > 256) this.#chunks = [Buffer.concat(this.#chunks)];
  }

  /** The tail as bytes: at most `limit` of them. */
  bytes(): Buffer {
    const all = Buffer.concat(this.#chunks);
    return all.subarray(Math.max(0, all.byteLength - this.#limit));
  }

  /** The tail as UTF-8. A character that the cut went through is left out. */
  text(): string {
    return tailText(this.bytes(), this.#written);
  }
}

/** The last bytes of so many written, as UTF-8. A character that the cut went through is left out. */
export function tailText(bytes: Buffer, written: number): string {
  let start = 0;
  if (written > bytes.byteLength) {
    while (start < 3 && start < bytes.byteLength && (bytes[start]! & 0xc0) === 0x80) start += 1;
  }
  return bytes.subarray(start).toString('utf8');
}
