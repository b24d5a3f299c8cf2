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

/**
 * Text that waits, in the pieces in which it came: it is put together when something in it is waited for, not with every
 * piece that comes, so that a long call costs its length and not its square.
 */
export class WaitingText {
  #pieces: string[] = [];
  #until: readonly string[] | null = null;
  /** What a marker that is waited for may have begun with. */
  #tail = '';

  add(piece: string): void {
    if (piece !== '') this.#pieces.push(piece);
  }

  /** Keeps the text until one of the markers is in what comes; null: until anything comes. */
  wait(text: string, until: readonly string[] | null): void {
    this.#pieces = text === '' ? [] : [text];
    this.#until = until;
    this.#tail = '';
    if (until !== null) this.#tail = this.#tailOf(text);
  }

  /** Whether the piece that was just added is one that was waited for. */
  comes(piece: string): boolean {
    if (this.#until === null) return true;
    const seen = this.#tail + piece;
    if (this.#until.some((marker) => seen.includes(marker))) return true;
    this.#tail = this.#tailOf(seen);
    return false;
  }

  take(): string {
    const text = this.#pieces.join('');
    this.#pieces = [];
    this.#until = null;
    return text;
  }

  #tailOf(text: string): string {
    const longest = Math.max(...(this.#until ?? []).map((marker) => marker.length));
    return longest > 1 ? text.slice(1 - longest) : '';
  }
}
