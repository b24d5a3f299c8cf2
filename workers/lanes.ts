import { availableParallelism } from 'node:os';
import type { Agent } from '../src/agents/agent.ts';
import type { Settings } from '../src/config/index.ts';
import { EpisodeError, type Lane, type Task } from '../src/contracts/index.ts';
import type { LaneParts } from '../src/episode/ports.ts';
import type { Grader } from '../src/grading/grader.ts';
import type { Logger } from '../src/observe/index.ts';
import type { SandboxProvider } from '../src/sandbox/sandbox.ts';
import { createSandboxProvider, findClaudeCli, type SandboxProviderName } from '../src/sandbox/index.ts';

/** A provider of sandboxes as the settings want it. */
export function sandboxProviderOf(
  settings: Settings,
  name: SandboxProviderName,
  log: Logger,
): SandboxProvider {
  return createSandboxProvider(name, {
    log,
    defaultImage: settings.sandbox.image,
    dockerHost: settings.sandbox.dockerHost,
  });
}

/** Lanes this version can serve, in the order a probe tries them. */
export const servable = ['claude_code-docker', 'claude_code-local'] as const satisfies readonly Lane[];

/** A worker has no lane it could serve, and why for each. */
export class NoLaneError extends Error {
  constructor(reasons: readonly string[]) {
    super(
      reasons.length === 1
        ? `cannot serve ${reasons[0]}`
        : `no lane can be served here:${reasons.map((reason) => `\n  ${reason}`).join('')}`,
    );
    this.name = 'NoLaneError';
  }
}

export interface ServedLane {
  readonly provider: SandboxProvider;
  readonly cli_binary: string;
}

export type ServedLanes = ReadonlyMap<Lane, ServedLane> & AsyncDisposable;

/**
 * Finds out which lanes this machine can serve. Lanes that were asked for by name must all work, or it rejects with why;
 * without names it takes those that work, `claude_code-local` only where it is allowed.
 */
export async function probeLanes(
  settings: Settings,
  log: Logger,
  signal?: AbortSignal,
): Promise<ServedLanes> {
  const asked = settings.worker.lanes;
  const candidates =
    asked ?? servable.filter((lane) => lane !== 'claude_code-local' || settings.worker.allowLocal);
  const served = new Map<Lane, ServedLane>();
  const reasons: string[] = [];
  const closeAll = async (): Promise<void> => {
    for (const { provider } of served.values()) await provider[Symbol.asyncDispose]();
  };
  for (const lane of candidates) {
    if (!(servable as readonly Lane[]).includes(lane)) {
      reasons.push(`${lane}: this version does not serve it yet`);
      continue;
    }
    const name = lane === 'claude_code-docker' ? 'docker' : 'local';
    const provider = sandboxProviderOf(settings, name, log);
    try {
      const cli_binary = await findClaudeCli(settings.sandbox.claudeCli);
      await provider.probe(signal);
      served.set(lane, { provider, cli_binary });
    } catch (error) {
      await provider[Symbol.asyncDispose]();
      reasons.push(`${lane}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (served.size === 0 || (asked !== null && reasons.length > 0)) {
    await closeAll();
    if (asked === null && !settings.worker.allowLocal) {
      reasons.push('claude_code-local: not allowed (--allow-local; it does not isolate)');
    }
    throw new NoLaneError(reasons);
  }
  for (const reason of reasons) log.warn({ reason }, 'lane not served');
  return Object.assign(served, { [Symbol.asyncDispose]: closeAll });
}

/** Episodes at once without a setting: agents mostly wait for their policy, and their starts are gated. */
export function defaultConcurrency(): number {
  return 4 * availableParallelism();
}

/** Episodes at once on a lane. */
export function concurrencyOf(lane: Lane, settings: Settings): number {
  const { everyLane, byLane } = settings.worker.concurrency;
  return byLane[lane] ?? everyLane ?? defaultConcurrency();
}

/** How a task is run, given the lane its job came from. */
export function partsOf(
  served: ServedLanes,
  agent: Agent,
  grader: Grader,
): (task: Task, lane: Lane) => LaneParts {
  return (task, lane) => {
    const found = served.get(lane);
    if (found === undefined || task.kind !== 'claude_code') {
      throw new EpisodeError({
        class: 'task',
        phase: 'boot',
        code: 'kind_not_served',
        message: `a task of kind ${task.kind} cannot run on the lane ${lane}`,
      });
    }
    return { ...found, agent, grader };
  };
}
