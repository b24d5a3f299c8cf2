import type { ChatMessage, EffectiveLimits, Task, VerifyOutcome } from '../contracts/index.ts';
import type { Environment } from '../fleet/environment.ts';
import type { Logger } from '../observe/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { LeadingFiles } from './leading-files.ts';

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
  /**
   * Makes another sandbox of the same task: its files and its set-up are there, nothing of the agent's, no gateway and no
   * agent CLI. Whoever gives it ends it; disposing it ends it sooner. Absent: grading goes without, and cannot tell a
   * verifier that is at fault from one that the agent broke.
   */
  readonly freshSandbox?: () => Promise<Sandbox>;
  /** What `Grader.look` found before the agent started. Absent or null: nothing is known. */
  readonly before?: LeadingFiles | null;
  /** Epoch milliseconds. Absent: not known. */
  readonly agent_started_at?: number;
  /** Processes of the agent that ran when it had ended. Absent: not known. */
  readonly processes_left?: number;
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
  /** Looks at a sandbox before its agent starts, for what could lead the verifier; null: nothing could. */
  look?(task: Task, sandbox: Sandbox, signal: AbortSignal): Promise<LeadingFiles | null>;
  grade(context: GradeContext): Promise<Grade>;
}
