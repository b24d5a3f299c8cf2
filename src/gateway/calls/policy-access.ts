import type { Logger } from '../../observe/index.ts';
import type { Continuation } from '../continuation/continuation.ts';
import type { Engine } from '../engines/engine.ts';
import type { PauseWatch } from '../policy/pause-watch.ts';
import type { Replica } from '../policy/replica.ts';
import type { ReplicaSet } from '../policy/replica-set.ts';
import type { PolicyState } from '../policy-state.ts';

/** What all sessions of a gateway share. */
export interface PolicyAccess {
  readonly engine: Engine;
  readonly continuation: Continuation;
  /** Until when, by `performance.now()`, a replica that did not render in time is asked for no rendering. */
  readonly slowRenders: WeakMap<Replica, number>;
  readonly replicas: ReplicaSet;
  readonly state: PolicyState;
  readonly pauses: PauseWatch;
  readonly log: Logger;
}
