import type { Agent } from '../agents/agent.ts';
import type { EffectiveLimits, Lane, LogprobsMode, SamplingOverrides, Task } from '../contracts/index.ts';
import type { EnvironmentProvider } from '../fleet/environment.ts';
import type { SessionFactory } from '../gateway/session.ts';
import type { Grader } from '../grading/grader.ts';
import type { Logger } from '../observe/index.ts';
import type { SandboxProvider } from '../sandbox/sandbox.ts';

/** How tasks of one lane are run. */
export interface LaneParts {
  /** null for agents that act without a sandbox. */
  readonly provider: SandboxProvider | null;
  /** For agents that act in an environment; such a lane has no sandboxes. */
  readonly environments?: EnvironmentProvider;
  readonly agent: Agent;
  readonly grader: Grader;
  /** Agent CLI binary on this machine, mounted read-only into the sandbox. */
  readonly cli_binary: string | null;
}

/** What the policy was found to be when the worker started. */
export interface PolicyIdentity {
  readonly model: string;
  readonly logprobs_mode: LogprobsMode;
  readonly version_source: 'pushed' | 'engine' | 'none';
}

/** Everything an episode stands on. One set a worker process. */
export interface EpisodePorts {
  readonly sessions: SessionFactory;
  /** The parts that serve a task of a lane; throws (EpisodeError, class task) when this worker has none. */
  partsFor(task: Task, lane: Lane): LaneParts;
  readonly policy: PolicyIdentity | (() => PolicyIdentity);
  /** Worker settings below the run's and the task's. */
  readonly limits: Partial<EffectiveLimits>;
  readonly sampling: SamplingOverrides;
  /** Name of the pool, for labels of what is left behind. */
  readonly pool: string;
  /** Sandboxes booting at once in this process, apart from episodes running. Default: 2 x cores. */
  readonly boot_concurrency?: number;
  /** Final states of sandboxes that are kept for grading again, the last so many of a provider. Default: 0. */
  readonly keep_sandboxes?: number;
  readonly log: Logger;
}
