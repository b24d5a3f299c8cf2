/** Length of the longest end of the text that may still become one of the markers. */
export function heldLength(text: string, markers: readonly string[]): number {
  const longest = Math.max(...markers.map((marker) => marker.length));
  for (let length = Math.min(longest - 1, text.length); length > 0; length--) {
    const end = text.slice(text.length - length);
    if (markers.some((marker) => marker.length > length && marker.startsWith(end))) return length;
  }
  return 0;
}

/** Where the first of the markers stands, and which it is: the longest of those at one place. Null where none does. */
export function firstMarker(
  text: string,
  from: number,
  markers: readonly string[],
): { readonly at: number; readonly marker: string } | null {
  let found: { readonly at: number; readonly marker: string } | null = null;
  for (const marker of markers) {
    const at = text.indexOf(marker, from);
    if (at >= 0 && (found === null || at < found.at)) found = { at, marker };
  }
  return found;
}

/** From this length on (in UTF-16 units) a text that is read again has grown by a sixteenth since. */
const longText = 16_384;

/**
 * Text that waits, in the pieces in which it came: it is put together when something in it is waited for, not with every
 * piece that comes, so that a long call costs about its length and not its square.
 */
export class WaitingText {
  #pieces: string[] = [];
  #length = 0;
  #until: readonly string[] | null = null;
  /** What a marker that is waited for may have begun with. */
  #tail = '';
  #came = true;
  #shortest = 0;

  /** Adds a piece. True: what is waited for is there, or anything is. */
  add(piece: string): boolean {
    if (piece !== '') this.#pieces.push(piece);
    this.#length += piece.length;
    if (!this.#came && this.#until !== null) {
      const seen = this.#tail + piece;
      this.#came = this.#until.some((marker) => seen.includes(marker));
      this.#tail = this.#tailOf(seen);
    }
    return this.#came && this.#length >= this.#shortest;
  }

  /** Keeps the text until one of the markers is in what comes; null: until anything comes. */
  wait(text: string, until: readonly string[] | null): void {
    this.#pieces = text === '' ? [] : [text];
    this.#length = text.length;
    this.#until = until;
    this.#came = until === null;
    this.#tail = this.#tailOf(text);
    this.#shortest = text.length < longText ? 0 : text.length * (1 + 1 / 16);
  }

  take(): string {
    const text = this.#pieces.join('');
    this.wait('', null);
    return text;
  }

  #tailOf(text: string): string {
    const longest = Math.max(1, ...(this.#until ?? []).map((marker) => marker.length));
    return longest > 1 ? text.slice(1 - longest) : '';
  }
}
