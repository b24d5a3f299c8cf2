const lineFeed = 10;
const carriageReturn = 13;
const space = 32;

/**
 * Server-sent events out of bytes: gives each event's data. Only whole lines are decoded, so that a character cut between
 * two chunks stays one. Takes LF and CRLF, comments, several data lines an event, `data:` with and without a space.
 * Other fields say nothing here.
 */
export class SseReader {
  /** Chunks of a line that has not ended yet. */
  #open: Buffer[] = [];
  #data: string | null = null;

  /** The data of every event that ended in `chunk`. */
  push(chunk: Buffer): string[] {
    const events: string[] = [];
    const behind = chunk.lastIndexOf(lineFeed) + 1;
    if (behind > 0) this.#lines(this.#joined(chunk.subarray(0, behind)).toString(), events);
    if (behind < chunk.length) this.#open.push(chunk.subarray(behind));
    return events;
  }

  /** The data of an event that the end of the body cut off; null when there is none. Servers may leave out the last blank line. */
  end(): string | null {
    const rest = this.#joined(Buffer.alloc(0)).toString();
    if (rest !== '') this.#lines(`${rest}\n`, []);
    return this.#data;
  }

  #joined(rest: Buffer): Buffer {
    if (this.#open.length === 0) return rest;
    const line = Buffer.concat([...this.#open, rest]);
    this.#open = [];
    return line;
  }

  #lines(text: string, events: string[]): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#line(
        text,
        from,
        text.charCodeAt(end - 1) === carriageReturn ? Math.max(from, end - 1) : end,
        events,
      );
      from = end + 1;
    }
  }

  #line(text: string, from: number, to: number, events: string[]): void {
    if (from === to) {
      if (this.#data !== null) events.push(this.#data);
      this.#data = null;
      return;
    }
    if (!text.startsWith('data:', from)) return;
    const value = text.slice(text.charCodeAt(from + 5) === space ? from + 6 : from + 5, to);
    this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }
}
