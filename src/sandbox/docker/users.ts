import type { SandboxUser } from '../sandbox.ts';

/**
 * Numeric ids, as an image need not know these users. The agent and the grader are different users so that nothing the
 * agent owns is the grader's; neither can become the other or root (no capabilities, no-new-privileges).
 */
export const uids: Readonly<Record<SandboxUser, number>> = Object.freeze({
  root: 0,
  agent: 1000,
  grader: 1001,
});

export const homes: Readonly<Record<SandboxUser, string>> = Object.freeze({
  root: '/root',
  agent: '/home/agent',
  grader: '/home/grader',
});
