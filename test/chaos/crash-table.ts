import type { CrashPoint } from '../../src/observe/index.ts';

export interface Passing {
  /** The part of a worker process that passes the point: the twin's own starts only when the doomed one has passed it. */
  readonly part: 'worker' | 'feeder' | 'reconciler';
  /** What the doomed process does with its episodes so that it passes the point. */
  readonly acts: Acts;
  /** Whether the point lies before the publish of the episode that passes it. */
  readonly published: boolean;
}

/**
 * `plain` yields at once; `sandboxed` is the real episode, with a sandbox, a gateway and a policy, and so is `environment`,
 * with an instance of the local Fleet in place of the sandbox.
 */
export type Acts = 'plain' | 'retry' | 'handoff' | ActsInPlace;
export type ActsInPlace = 'sandboxed' | 'environment';

export function inPlace(acts: Acts): ActsInPlace | null {
  return acts === 'sandboxed' || acts === 'environment' ? acts : null;
}

const plain: Passing = { part: 'worker', acts: 'plain', published: false };
const sandboxed: Passing = { part: 'worker', acts: 'sandboxed', published: false };
const environment: Passing = { part: 'worker', acts: 'environment', published: false };
const published: Passing = { part: 'worker', acts: 'plain', published: true };

/** How each crash point is passed. The type wants every one of them, so does a test. */
export const crashTable: Readonly<Record<CrashPoint, Passing>> = {
  'claim:before': plain,
  'claim:after': plain,
  'sandbox.create:before': sandboxed,
  'sandbox.create:after': sandboxed,
  'environment.create:before': environment,
  'environment.create:after': environment,
  'agent:before': sandboxed,
  'agent:after': sandboxed,
  'grade:after': sandboxed,
  'sandbox.delete:before': sandboxed,
  'sandbox.delete:after': sandboxed,
  'environment.delete:before': environment,
  'environment.delete:after': environment,
  'payload.store:before': plain,
  'payload.store:after': plain,
  'publish:before': plain,
  'publish:after': published,
  'results.add:before': published,
  'results.add:after': published,
  'complete:before': published,
  'deliver:before': { part: 'feeder', acts: 'plain', published: true },
  'deliver:after': { part: 'feeder', acts: 'plain', published: true },
  'result.complete:before': { part: 'feeder', acts: 'plain', published: true },
  'retry.delay:before': { part: 'worker', acts: 'retry', published: false },
  'retry.delay:after': { part: 'worker', acts: 'retry', published: false },
  'handoff:before': { part: 'worker', acts: 'handoff', published: false },
  'handoff:after': { part: 'worker', acts: 'handoff', published: false },
  'reconcile:before': { part: 'reconciler', acts: 'plain', published: false },
  'reconcile:after': { part: 'reconciler', acts: 'plain', published: false },
};
