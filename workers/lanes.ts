import { availableParallelism } from 'node:os';
import type { Agent } from '../src/agents/agent.ts';
import type { Settings } from '../src/config/index.ts';
import {
  EpisodeError,
  type CreationGate,
  type Lane,
  type PlaceLimit,
  type Reaper,
  type Task,
  type TaskKind,
} from '../src/contracts/index.ts';
import type { LaneParts } from '../src/episode/ports.ts';
import { createFleetProvider } from '../src/fleet/index.ts';
import type { EnvironmentProvider } from '../src/fleet/environment.ts';
import type { Grader } from '../src/grading/grader.ts';
import type { Logger } from '../src/observe/index.ts';
import type { SandboxProvider } from '../src/sandbox/sandbox.ts';
import { createSandboxProvider, findClaudeCli, type SandboxProviderName } from '../src/sandbox/index.ts';

/** What all workers of a pool share of a service that limits sandboxes. */
export interface SharedLimits {
  readonly gate: CreationGate;
  readonly limit: PlaceLimit;
}

/** A provider of sandboxes as the settings want it. E2B needs a key; without limits nothing holds its creations. */
export function sandboxProviderOf(
  settings: Settings,
  name: SandboxProviderName,
  log: Logger,
  runtimeDirectory: string | null = null,
  limits: SharedLimits | null = null,
): SandboxProvider {
  const { apiKey, apiUrl, sandboxUrl, domain, template } = settings.e2b;
  return createSandboxProvider(name, {
    log,
    defaultImage: settings.sandbox.image,
    dockerHost: settings.sandbox.dockerHost,
    reach: settings.sandbox.reach,
    runtimeDirectory,
    imageSeconds: settings.sandbox.imageSeconds,
    diskMb: settings.sandbox.diskMb,
    diskFreeMb: settings.sandbox.diskFreeMb,
    egress: { allowPrivate: settings.sandbox.egressPrivate },
    e2b: apiKey === null ? null : { connection: { apiKey, apiUrl, sandboxUrl, domain }, template, ...limits },
  });
}

/** Creations are let through at once: for who only looks or removes. */
const noGate: CreationGate = {
  enter: async (signal) => {
    signal.throwIfAborted();
    const nothing = async (): Promise<void> => {};
    return { passed: nothing, refused: nothing, left: nothing };
  },
};

/** The Fleet service of the settings; null where none is named. */
export function fleetProviderOf(
  settings: Settings,
  log: Logger,
  gate: CreationGate = noGate,
): EnvironmentProvider | null {
  const { baseUrl, apiKey } = settings.fleet;
  return apiKey === null ? null : createFleetProvider({ baseUrl, apiKey, gate, log });
}

/** Lanes this version can serve, in the order a probe tries them. */
export const servable = [
  'claude_code-docker',
  'claude_code-e2b',
  'claude_code-local',
  'fleet',
] as const satisfies readonly Lane[];

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

/** What a lane's episodes act in. */
export type ServedLane =
  /** Without a binary the CLI is what the sandbox's template has. */
  | { readonly provider: SandboxProvider; readonly cli_binary: string | null }
  | { readonly provider: null; readonly cli_binary: null; readonly environments: EnvironmentProvider };

export type ServedLanes = ReadonlyMap<Lane, ServedLane> & AsyncDisposable;

/** Who removes what the episodes of a lane may leave behind. */
export function reaperOf(lane: ServedLane): Reaper & AsyncDisposable {
  return lane.provider ?? lane.environments;
}

export interface LanesOptions {
  readonly settings: Settings;
  readonly log: Logger;
  /** What Fleet creations pass; default: nothing holds them. */
  readonly gate?: CreationGate;
  /** What E2B creations pass; default: nothing holds them. */
  readonly e2b?: SharedLimits;
  /** This process's own directory; null: no sandbox is made ahead of its episode. Default: null. */
  readonly runtimeDirectory?: string | null;
  readonly signal?: AbortSignal | undefined;
}

/** Lanes to be tried where none was named. */
function candidatesOf({ worker, fleet, e2b }: Settings): Lane[] {
  return servable.filter(
    (lane) =>
      (lane !== 'claude_code-local' || worker.allowLocal) &&
      (lane !== 'claude_code-e2b' || e2b.apiKey !== null) &&
      (lane !== 'fleet' || fleet.apiKey !== null),
  );
}

/** Makes sure that a lane works here; rejects with why it does not. */
async function openLane(
  lane: Lane,
  { settings, log, gate, e2b, signal, runtimeDirectory }: LanesOptions,
): Promise<ServedLane> {
  if (lane === 'fleet') {
    const environments = fleetProviderOf(settings, log, gate);
    if (environments === null) throw new Error('FLEET_API_KEY is not set');
    return probed({ provider: null, cli_binary: null, environments }, signal);
  }
  if (lane === 'claude_code-e2b') {
    if (settings.e2b.apiKey === null) throw new Error('E2B_API_KEY is not set');
    const provider = sandboxProviderOf(settings, 'e2b', log, null, e2b);
    return probed({ provider, cli_binary: null }, signal);
  }
  const cli_binary = await findClaudeCli(settings.sandbox.claudeCli);
  const name = lane === 'claude_code-docker' ? 'docker' : 'local';
  return probed({ provider: sandboxProviderOf(settings, name, log, runtimeDirectory), cli_binary }, signal);
}

async function probed(lane: ServedLane, signal: AbortSignal | undefined): Promise<ServedLane> {
  try {
    await (lane.provider ?? lane.environments).probe(signal);
    return lane;
  } catch (error) {
    await reaperOf(lane)[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Finds out which lanes this machine can serve. Lanes that were asked for by name must all work, or it rejects with why;
 * without names it takes those that work, `claude_code-local` only where it is allowed.
 */
export async function probeLanes(options: LanesOptions): Promise<ServedLanes> {
  const { settings, log } = options;
  const asked = settings.worker.lanes;
  const served = new Map<Lane, ServedLane>();
  const reasons: string[] = [];
  const closeAll = async (): Promise<void> => {
    for (const lane of served.values()) await reaperOf(lane)[Symbol.asyncDispose]();
  };
  for (const lane of asked ?? candidatesOf(settings)) {
    try {
      served.set(lane, await openLane(lane, options));
    } catch (error) {
      reasons.push(`${lane}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (served.size === 0 || (asked !== null && reasons.length > 0)) {
    await closeAll();
    if (asked === null && !settings.worker.allowLocal) {
      reasons.push('claude_code-local: not allowed (--allow-local; it does not isolate)');
    }
    if (asked === null && settings.fleet.apiKey === null) reasons.push('fleet: FLEET_API_KEY is not set');
    throw new NoLaneError(reasons);
  }
  for (const reason of reasons) log.warn({ reason }, 'lane not served');
  return Object.assign(served, { [Symbol.asyncDispose]: closeAll });
}

/**
 * Episodes at once without a setting: agents mostly wait for their policy; those with a CLI on this machine cost most at
 * their start.
 */
export function defaultConcurrency(lane: Lane, settings: Settings): number {
  const many = 16 * availableParallelism();
  if (lane === 'claude_code-e2b') return Math.min(many, settings.e2b.sandboxes);
  return lane === 'fleet' ? many : 4 * availableParallelism();
}

/** Episodes at once on a lane. */
export function concurrencyOf(lane: Lane, settings: Settings): number {
  const { everyLane, byLane } = settings.worker.concurrency;
  return byLane[lane] ?? everyLane ?? defaultConcurrency(lane, settings);
}

/** Who acts for a kind of task and who grades it. */
export type KindParts = Readonly<Record<TaskKind, { readonly agent: Agent; readonly grader: Grader }>>;

/** How a task is run, given the lane its job came from. */
export function partsOf(served: ServedLanes, kinds: KindParts): (task: Task, lane: Lane) => LaneParts {
  return (task, lane) => {
    const found = served.get(lane);
    if (found === undefined || (lane === 'fleet') !== (task.kind === 'fleet')) {
      throw new EpisodeError({
        class: 'task',
        phase: 'boot',
        code: 'kind_not_served',
        message: `a task of kind ${task.kind} cannot run on the lane ${lane}`,
      });
    }
    return { ...found, ...kinds[task.kind] };
  };
}
