/**
 * A signal that aborts with the first of others, or by itself, until it is let go. AbortSignal.any says the same, at several
 * times the cost, and leaves letting go to the garbage collector.
 */
export class LinkedAbort implements Disposable {
  readonly #abort = new AbortController();
  readonly #sources: readonly AbortSignal[];

  constructor(sources: readonly AbortSignal[]) {
    this.#sources = sources;
    for (const source of sources) {
      if (source.aborted) this.abort(source.reason);
      else source.addEventListener('abort', this);
    }
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The first reason counts. */
  abort(reason: unknown): void {
    this.#abort.abort(reason);
  }

  /** Called by the sources. */
  handleEvent({ target }: Event): void {
    this.abort((target as AbortSignal).reason);
  }

  /** The sources say nothing to it any more. */
  [Symbol.dispose](): void {
    for (const source of this.#sources) source.removeEventListener('abort', this);
  }
}
