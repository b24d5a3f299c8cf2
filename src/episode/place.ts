import type { Environment } from '../fleet/environment.ts';
import type { Sandbox, SandboxState } from '../sandbox/sandbox.ts';

/** Where an agent acts: a sandbox it runs in, or an environment whose tools it calls, or neither. */
export interface Places {
  readonly sandbox: Sandbox | null;
  readonly environment: Environment | null;
}

export const nowhere: Places = { sandbox: null, environment: null };

/** What both have in common: all that watching one and ending it takes. */
export interface Place extends AsyncDisposable {
  readonly provider: string;
  readonly id: string;
  state(): Promise<SandboxState>;
  extend(seconds: number): Promise<void>;
}

export function placeOf({ sandbox, environment }: Places): Place | null {
  return sandbox ?? environment;
}
