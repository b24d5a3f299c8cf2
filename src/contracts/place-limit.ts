/** One place of a provider that has only so many. Disposing is releasing. */
export interface Place extends AsyncDisposable {
  /** Gives the place back, once; again is nothing. Never rejects: what cannot be given back runs out by itself. */
  release(): Promise<void>;
}

/**
 * How much of a provider all workers of the pool together may use: so many at once, and so many new ones a second. A
 * place is renewed for as long as its holder lives, and falls free by itself when the holder died.
 */
export interface PlaceLimit {
  /**
   * Resolves when there is a place and its creation may be sent. Waiting here is no failure and no attempt. Rejects with
   * the signal's reason.
   */
  take(signal: AbortSignal): Promise<Place>;
}
