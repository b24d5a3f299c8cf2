import type { CallClock } from '../calls/call-clock.ts';
import { EngineError } from '../engines/engine-error.ts';
import { LinkedAbort } from '../linked-abort.ts';
import type { PolicyState } from '../policy-state.ts';
import { backoffMs, pause } from './backoff.ts';
import type { CallSlot } from './call-slots.ts';
import { CutByPause, type PauseWatch } from './pause-watch.ts';
import type { Affinity, ReplicaSet, Server } from './replica-set.ts';
import type { Replica } from './replica.ts';

/** After so many failures of one replica in one call another one is tried. */
const patience = 2;

export interface PolicyCall<T> {
  readonly replicas: ReplicaSet;
  readonly affinity: Affinity;
  readonly state: PolicyState;
  readonly pauses: PauseWatch;
  readonly clock: CallClock;
  /** Ends the call: client gone, session closed, or the clock's deadline. */
  readonly signal: AbortSignal;
  /** One try; its signal ends it with the call, and when the call is to leave this replica. Rejects with EngineError to be tried again or given up. */
  readonly attempt: (replica: Replica, signal: AbortSignal) => Promise<T>;
  /** Told of every failure that is tried again. */
  readonly onRetry: (error: Error) => void;
}

/** A place on a replica; null when the replica died meanwhile. Waiting for it is hold time: others' calls are no fault of this one's. */
async function slotOn<T>(call: PolicyCall<T>, server: Server): Promise<CallSlot | null> {
  const free = server.slots.tryEnter();
  if (free !== null) return free;
  call.clock.hold('queued');
  const slot = await server.slots.enter(call.affinity, call.signal);
  call.clock.release('queued');
  return slot;
}

/** Waits until nothing speaks against a try; true when it had to, so that all is to be looked at again. */
async function heldBack<T>(call: PolicyCall<T>): Promise<boolean> {
  if (call.state.paused()) {
    call.clock.hold('paused');
    await call.state.resumed(call.signal);
    call.clock.release('paused');
    return true;
  }
  if (call.replicas.inReach) return false;
  using _held = call.replicas.hold();
  call.clock.hold('unreachable');
  await call.replicas.reached(call.signal);
  call.clock.release('unreachable');
  return true;
}

/**
 * Brings one call through: waits while the policy is paused, out of reach or full (held), tries again on 429, 5xx and
 * broken connections, moves to another replica when one dies. Its deadlines are the clock's, through `signal`. Rejects
 * with the EngineError that cannot be retried, or with the signal's reason.
 */
export async function callPolicy<T>(call: PolicyCall<T>): Promise<T> {
  let failures = 0;
  let leave: Server | undefined;
  for (;;) {
    call.signal.throwIfAborted();
    if (await heldBack(call)) continue;
    const server = call.replicas.choose(call.affinity, leave);
    leave = undefined;
    let waitMs = 0;
    {
      using slot = await slotOn(call, server);
      // It may have waited long: what held then may not hold now.
      if (slot === null || call.state.paused()) continue;
      using ends = new LinkedAbort([call.signal]);
      slot.onCut = (reason) => ends.abort(reason);
      call.pauses.cut(ends);
      try {
        const result = await call.attempt(server.replica, ends.signal);
        server.health.answered();
        return result;
      } catch (error) {
        call.signal.throwIfAborted();
        if (error instanceof CutByPause) {
          call.onRetry(error);
          continue;
        }
        if (!(error instanceof EngineError)) throw error;
        if (error.fault !== 'unreachable' && error.fault !== 'busy') {
          if (error.fault !== 'misconfigured') server.health.answered();
          throw error;
        }
        call.onRetry(error);
        if (error.fault === 'unreachable') {
          server.health.found('dead');
          continue;
        }
        failures++;
        if (error.status !== 429 && failures % patience === 0) {
          server.health.found('failing');
          leave = server;
        }
        waitMs = Math.max(error.retryAfterMs ?? 0, backoffMs(failures - 1));
      } finally {
        call.pauses.spare(ends);
      }
    }
    await pause(waitMs, call.signal);
  }
}
