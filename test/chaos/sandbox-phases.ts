/** Where a worker is when it is killed with sandboxes. */
export const sandboxPhases = [
  'provide',
  'boot',
  'made',
  'setup',
  'agent',
  'snapshot',
  'grade',
  'teardown',
  'torn down',
  'publish',
  'ready ahead',
] as const;
export type SandboxPhase = (typeof sandboxPhases)[number];
export type DoomedProvider = 'docker' | 'e2b';

/** What a doomed process is told, as JSON in its first argument. */
export interface DoomedOptions {
  /** `living`: it comes to its agents, holds one more sandbox of each provider ready, and ends only when it is killed. */
  readonly phase: SandboxPhase | 'living';
  /** One episode of each: it dies when all of them have come to the phase. */
  readonly providers: readonly DoomedProvider[];
  readonly redisUrl: string;
  readonly pool: string;
  readonly policyUrl: string;
  readonly e2b: { readonly apiKey: string; readonly apiUrl: string; readonly sandboxUrl: string };
}

/** Phases in which no sandbox is left: there is none yet, or none any more. */
export const withoutSandbox: readonly SandboxPhase[] = ['provide', 'boot', 'torn down', 'publish'];

/** Time after which a place of a dead worker is free, milliseconds. */
export const placeLeaseMs = 3_000;
