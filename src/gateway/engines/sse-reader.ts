const lineFeed = 10;
const carriageReturn = 13;

/**
 * Server-sent events out of bytes: gives each event's data. A line is decoded once it is whole, so that a character cut
 * between two chunks stays one. Takes LF and CRLF, comments, several data lines an event, `data:` with and without a
 * space. Other fields say nothing here.
 */
export class SseReader {
  /** Chunks of a line that has not ended yet. */
  #open: Buffer[] = [];
  #data: string | null = null;

  /** The data of every event that ended in `chunk`. */
  push(chunk: Buffer): string[] {
    const events: string[] = [];
    let from = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, from)) {
      this.#line(this.#joined(chunk.subarray(from, end)), events);
      from = end + 1;
    }
    if (from < chunk.length) this.#open.push(chunk.subarray(from));
    return events;
  }

  /** The data of an event that the end of the body cut off; null when there is none. Servers may leave out the last blank line. */
  end(): string | null {
    const events: string[] = [];
    if (this.#open.length > 0) this.#line(this.#joined(Buffer.alloc(0)), events);
    return this.#data;
  }

  #joined(rest: Buffer): Buffer {
    if (this.#open.length === 0) return rest;
    const line = Buffer.concat([...this.#open, rest]);
    this.#open = [];
    return line;
  }

  #line(line: Buffer, events: string[]): void {
    const length = line.at(-1) === carriageReturn ? line.length - 1 : line.length;
    if (length === 0) {
      if (this.#data !== null) events.push(this.#data);
      this.#data = null;
      return;
    }
    if (line.toString('latin1', 0, 5) !== 'data:') return;
    const value = line.toString('utf8', line[5] === 32 ? 6 : 5, length);
    this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }
}
