/** Milliseconds. The defaults are what the vendor's own clients run with in production. */
export interface McpTimings {
  /** Cap of one operation: opening a session, one list of all pages, one call. Default 60 000. */
  readonly operation_ms: number;
  /** Waits between tries; the last one repeats. Default 1, 2, 4, 5 seconds. */
  readonly backoff_ms: readonly number[];
  /**
   * How long an endpoint that keeps failing is waited for once another one has tools, inside the list's own time.
   * Default 60 000. One that is missing (404) is not waited for.
   */
  readonly straggler_ms: number;
  /** How long endpoints that all have tools, but not the wanted one, may still bring it. Default 30 000. */
  readonly unwanted_ms: number;
  /** How long the provider may take to say whether the instance is gone. Default 5 000. */
  readonly gone_ms: number;
  /** How long ending a session may take. Default 3 000. */
  readonly close_ms: number;
}

export const defaultTimings: McpTimings = {
  operation_ms: 60_000,
  backoff_ms: [1_000, 2_000, 4_000, 5_000],
  straggler_ms: 60_000,
  unwanted_ms: 30_000,
  gone_ms: 5_000,
  close_ms: 3_000,
};

export function backoffMs(timings: McpTimings, attempt: number): number {
  return timings.backoff_ms[attempt] ?? timings.backoff_ms.at(-1) ?? 0;
}
