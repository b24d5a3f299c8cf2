/** Every interval of the queue, milliseconds; one object, so that a test can make them all short. */
export interface QueueTimings {
  /** How long a job's lock lives without renewal: the longest outage of Redis that re-runs nothing. */
  readonly lockMs: number;
  readonly renewMs: number;
  /** How often jobs without a lock are looked for. */
  readonly stalledMs: number;
  /** Longest pause between two attempts to reconnect. */
  readonly reconnectMs: number;
  /** Delay before the second attempt after an infra failure; it doubles with each further attempt. */
  readonly retryBaseMs: number;
  readonly retryMaxMs: number;
  /** How long a job of a paused run is put aside before it is looked at again; resuming brings it back at once. */
  readonly parkMs: number;
  /** How long a job of a newer schema is put aside for a newer worker. */
  readonly handBackMs: number;
  /** Delay of a job of another run than the one its worker is for. */
  readonly otherRunMs: number;
  /** How long the teardown of an older copy of an episode in the same process is waited for. */
  readonly twinMs: number;
  readonly heartbeatMs: number;
  /** A worker without a heartbeat for so long is gone: longer than a lock, or its sandboxes would go before its episodes. */
  readonly heartbeatTtlMs: number;
  /** Life of a payload that was stored and not published. */
  readonly payloadTtlMs: number;
  readonly reconcileMs: number;
  /** How long a reconciler that died keeps the others out. */
  readonly reconcileLockMs: number;
}

/** design.md 4: every episode of a killed worker runs again within 90 s, and 30 s without Redis re-run nothing. */
export const defaultTimings: QueueTimings = Object.freeze({
  lockMs: 60_000,
  renewMs: 10_000,
  stalledMs: 12_000,
  reconnectMs: 2_000,
  retryBaseMs: 5_000,
  retryMaxMs: 60_000,
  parkMs: 30_000,
  handBackMs: 5_000,
  otherRunMs: 3_000,
  twinMs: 120_000,
  heartbeatMs: 5_000,
  heartbeatTtlMs: 90_000,
  payloadTtlMs: 3_600_000,
  reconcileMs: 30_000,
  reconcileLockMs: 60_000,
});

/** Starts of one episode, on all machines together, before an infra failure is published as its result. */
export const defaultMaxAttempts = 4;
