/**
 * What went wrong with a call. `timeout` and `transport` had no answer; `malformed` is an answer that is not what this
 * API answers; `server` is a 5xx; `api` any other refusal. The rest follow the vendor's own error classes.
 */
export type FleetApiErrorKind =
  | 'instance_limit'
  | 'rate_limit'
  | 'authentication'
  | 'team_not_found'
  | 'environment_access'
  | 'permission'
  | 'region'
  | 'environment_not_found'
  | 'version_not_found'
  | 'bad_request'
  | 'not_found'
  | 'conflict'
  | 'server'
  | 'api'
  | 'timeout'
  | 'transport'
  | 'malformed';

export interface FleetApiErrorFacts {
  readonly kind: FleetApiErrorKind;
  /** The same call may succeed later. */
  readonly transient: boolean;
  /** HTTP status; null: there was no answer. */
  readonly status?: number | null;
  /** The server's own words, bounded and without the key; '' when it had none. */
  readonly words?: string;
  /** What the server asked to wait, milliseconds. */
  readonly retry_after_ms?: number | null;
  readonly running_instances?: number | null;
  readonly instance_limit?: number | null;
  /** The call surely never reached the server, so it can have had no effect. */
  readonly unsent?: boolean;
}

/** A call of the Fleet API that failed. Its message names the call and holds the server's words, never the key. */
export class FleetApiError extends Error {
  readonly kind: FleetApiErrorKind;
  readonly transient: boolean;
  readonly status: number | null;
  readonly words: string;
  readonly retry_after_ms: number | null;
  readonly running_instances: number | null;
  readonly instance_limit: number | null;
  readonly unsent: boolean;

  constructor(message: string, facts: FleetApiErrorFacts, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'FleetApiError';
    this.kind = facts.kind;
    this.transient = facts.transient;
    this.status = facts.status ?? null;
    this.words = facts.words ?? '';
    this.retry_after_ms = facts.retry_after_ms ?? null;
    this.running_instances = facts.running_instances ?? null;
    this.instance_limit = facts.instance_limit ?? null;
    this.unsent = facts.unsent ?? false;
  }

  /** No place or too many calls: a reason to wait, not a failure. */
  get isBackpressure(): boolean {
    return this.kind === 'instance_limit' || (this.kind === 'rate_limit' && this.transient);
  }

  /** The key, or what it may do, is at fault: nothing changes by trying again. */
  get isAccess(): boolean {
    return (
      this.kind === 'authentication' ||
      this.kind === 'permission' ||
      this.kind === 'team_not_found' ||
      this.kind === 'environment_access'
    );
  }
}
