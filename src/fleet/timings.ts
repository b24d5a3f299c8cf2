/** Milliseconds, unless a name says otherwise. Tests shorten them. */
export interface FleetTimings {
  /** Pauses between tries of a creation; there is one try more than pauses. Source: the public OpenEnv source. */
  readonly createPauses: readonly number[];
  /** How long a creation that was given up may still answer, so that what it made is deleted by its id. */
  readonly createGrace: number;
  /** Between two looks at an instance that is not running yet. */
  readonly pendingPoll: number;
  /** One sweep of what lost creations made. */
  readonly sweep: number;
  /** When to sweep again what the service may finish later. */
  readonly sweepAgain: readonly number[];
  /** Seconds without a heartbeat after which the service removes an instance: 30 to 3600 on the wire. */
  readonly heartbeatIntervalSeconds: number;
  readonly heartbeatEvery: number;
  /** How long an answer to "is it there?" is believed. */
  readonly stateFresh: number;
  /** How long such a question may take. */
  readonly stateAsk: number;
  /** A deletion with all its tries. */
  readonly remove: number;
}

export const fleetTimings: FleetTimings = {
  createPauses: [2_000, 4_000, 8_000, 16_000],
  createGrace: 10_000,
  pendingPoll: 2_000,
  sweep: 15_000,
  sweepAgain: [60_000, 300_000],
  heartbeatIntervalSeconds: 300,
  heartbeatEvery: 60_000,
  stateFresh: 30_000,
  stateAsk: 10_000,
  remove: 30_000,
};
