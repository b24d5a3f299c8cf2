/**
 * Named places before and after every step that must survive a kill: the publish protocol, every sandbox create and
 * delete, every hand-off. They cost one comparison each; tests put a hook in and end the process there.
 */
export const crashPoints = [
  'claim:before',
  'claim:after',
  'sandbox.create:before',
  'sandbox.create:after',
  'environment.create:before',
  'environment.create:after',
  'agent:before',
  'agent:after',
  'grade:after',
  'payload.store:before',
  'payload.store:after',
  'publish:before',
  'publish:after',
  'results.add:before',
  'results.add:after',
  'complete:before',
  'deliver:before',
  'deliver:after',
  'result.complete:before',
  'sandbox.delete:before',
  'sandbox.delete:after',
  'environment.delete:before',
  'environment.delete:after',
  'retry.delay:before',
  'retry.delay:after',
  'handoff:before',
  'handoff:after',
  'reconcile:before',
  'reconcile:after',
] as const;
export type CrashPoint = (typeof crashPoints)[number];

let hook: ((point: CrashPoint) => void) | undefined;

/** Marks a crash point. Does nothing unless a test set a hook. */
export function crashPoint(point: CrashPoint): void {
  if (hook !== undefined) hook(point);
}

/** For tests only: `undefined` takes the hook out. */
export function setCrashHook(next: ((point: CrashPoint) => void) | undefined): void {
  hook = next;
}
