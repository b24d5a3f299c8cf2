import { expect } from 'vitest';
import {
  claudeCodeTaskSchema,
  resolveLimits,
  type ClaudeCodeTask,
  type EffectiveLimits,
  type Verify,
} from '../../src/contracts/index.ts';
import type { Grade, GradeContext, Grader } from '../../src/grading/grader.ts';
import { createCommandGrader } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import type { Sandbox } from '../../src/sandbox/index.ts';

export interface GradeInput extends Partial<Omit<Verify, 'commands'>> {
  readonly commands: string[];
}

export interface GradeMore extends Partial<GradeContext> {
  /** Parts of the task beside its verifier. */
  readonly task_parts?: Partial<Pick<ClaudeCodeTask, 'files' | 'setup' | 'task_key'>>;
  readonly limit?: Partial<EffectiveLimits>;
  readonly grader?: Grader;
}

export function taskOf(verify: GradeInput, parts: GradeMore['task_parts'] = {}): ClaudeCodeTask {
  return claudeCodeTaskSchema.parse({ task_key: 't', kind: 'claude_code', prompt: 'p', verify, ...parts });
}

/** Grades what is in a sandbox. */
export function grade(sandbox: Sandbox, verify: GradeInput, more: GradeMore = {}): Promise<Grade> {
  const { task_parts, limit, grader = createCommandGrader(), ...context } = more;
  return grader.grade({
    task: taskOf(verify, task_parts),
    sandbox,
    environment: null,
    limits: resolveLimits({ ...limit }),
    final_answer: null,
    conversation: [],
    signal: new AbortController().signal,
    log: silentLogger,
    ...context,
  });
}

/** Acts as the agent. */
export async function act(sandbox: Sandbox, command: string): Promise<string> {
  const result = await sandbox.exec(command, { user: 'agent', timeout_ms: 60_000 });
  expect(result, command).toMatchObject({ exit_code: 0 });
  return result.stdout;
}

/** Acts as what prepared the image. */
export async function asRoot(sandbox: Sandbox, command: string): Promise<string> {
  const result = await sandbox.exec(command, { user: 'root', timeout_ms: 60_000 });
  expect(result, command).toMatchObject({ exit_code: 0 });
  return result.stdout;
}
