import type { SandboxUser } from '../sandbox.ts';

export interface Account {
  readonly uid: number;
  readonly home: string;
}

/**
 * Users of our own: a template's default user often has uid 1000 and may become root by sudo, which the agent must not
 * be able to (facts: E2B 2.4). No image has these ids.
 */
export const accounts: Readonly<Record<SandboxUser, Account>> = Object.freeze({
  root: { uid: 0, home: '/root' },
  agent: { uid: 58_201, home: '/home/agent' },
  grader: { uid: 58_202, home: '/home/grader' },
});
