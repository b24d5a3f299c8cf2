/** Every interval of the limit, milliseconds. */
export interface PlacePace {
  /** How long a place is held when nothing is heard of its holder; it is renewed three times in it. */
  readonly leaseMs: number;
  /** How long one process that waits is believed to do so when nothing is heard of it. */
  readonly believedMs: number;
  /** How long a place is kept for the process whose turn it is. */
  readonly graceMs: number;
  /** Longest wait before a process that waits asks again. */
  readonly longestWaitMs: number;
  /** Longest time that `release` waits for Redis to hear of it; it is told later then. */
  readonly tellMs: number;
}

export const defaultPlacePace: PlacePace = Object.freeze({
  leaseMs: 60_000,
  believedMs: 20_000,
  graceMs: 1_000,
  longestWaitMs: 5_000,
  tellMs: 2_000,
});
