import type { CallClock } from '../calls/call-clock.ts';
import { EngineError } from '../engines/engine-error.ts';
import type { PolicyState } from '../policy-state.ts';
import { backoffMs, pause } from './backoff.ts';
import type { Affinity, ReplicaSet } from './replica-set.ts';
import type { Replica } from './replica.ts';

/** After so many failures of one replica in one call another one is tried. */
const patience = 2;

export interface PolicyCall<T> {
  readonly replicas: ReplicaSet;
  readonly affinity: Affinity;
  readonly state: PolicyState;
  readonly clock: CallClock;
  /** Ends the call: client gone, session closed, or the clock's deadline. */
  readonly signal: AbortSignal;
  /** One try. Rejects with EngineError to be tried again or given up. */
  readonly attempt: (replica: Replica) => Promise<T>;
  /** Told of every failure that is tried again. */
  readonly onRetry: (error: EngineError) => void;
}

/** Waits until a replica answers again: hold time. */
async function waitUntilReachable<T>(call: PolicyCall<T>, replica: Replica): Promise<void> {
  using _held = call.replicas.hold();
  call.clock.hold('unreachable');
  for (let tries = 0; ; tries++) {
    await pause(backoffMs(tries), call.signal);
    const candidate = call.replicas.choose(call.affinity);
    if (await candidate.reachable(call.signal)) break;
    call.replicas.avoid(replica);
  }
  call.clock.release('unreachable');
}

/**
 * Brings one call through: waits while the policy is paused or out of reach (held), tries again on 429, 5xx and broken
 * connections, moves to another replica when one dies. Its deadlines are the clock's, through `signal`. Rejects with
 * the EngineError that cannot be retried, or with the signal's reason.
 */
export async function callPolicy<T>(call: PolicyCall<T>): Promise<T> {
  let failures = 0;
  for (;;) {
    call.signal.throwIfAborted();
    if (call.state.paused()) {
      call.clock.hold('paused');
      await call.state.resumed(call.signal);
      call.clock.release('paused');
      continue;
    }
    const replica = call.replicas.choose(call.affinity);
    try {
      const result = await call.attempt(replica);
      call.replicas.answered(replica);
      return result;
    } catch (error) {
      call.signal.throwIfAborted();
      if (!(error instanceof EngineError)) throw error;
      if (error.fault === 'unreachable') {
        call.onRetry(error);
        if (!call.replicas.avoid(replica)) await waitUntilReachable(call, replica);
      } else if (error.fault === 'busy') {
        call.onRetry(error);
        failures++;
        if (error.status !== 429 && failures % patience === 0) call.replicas.avoid(replica);
        await pause(Math.max(error.retryAfterMs ?? 0, backoffMs(failures - 1)), call.signal);
      } else {
        throw error;
      }
    }
  }
}
