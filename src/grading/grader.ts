import type { ChatMessage, EffectiveLimits, Task, VerifyOutcome } from '../contracts/index.ts';
import type { Environment } from '../fleet/environment.ts';
import type { Logger } from '../observe/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

export interface GradeContext {
  readonly task: Task;
  readonly sandbox: Sandbox | null;
  readonly environment: Environment | null;
  readonly limits: EffectiveLimits;
  readonly final_answer: string | null;
  /** The main agent's messages in order, its answers included. */
  readonly conversation: readonly ChatMessage[];
  readonly signal: AbortSignal;
  readonly log: Logger;
}

export interface Grade {
  /** Finite and inside the task's range. */
  readonly reward: number;
  readonly rewards: Readonly<Record<string, number>>;
  readonly verify: readonly VerifyOutcome[];
  readonly metrics: Readonly<Record<string, number | boolean | string>>;
}

/** Rejects with EpisodeError of class task (the verifier is at fault) or infra; its `verify` outcomes so far are kept in GradeError. */
export interface Grader {
  grade(context: GradeContext): Promise<Grade>;
}
