import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import {
  defaultLimits,
  samplingSchema,
  type CallFormat,
  type EffectiveLimits,
  type Lane,
  type Sampling,
} from '../contracts/index.ts';
import {
  environmentSchema,
  noteOf,
  variableName,
  type Environment,
  type VariableName,
} from './environment.ts';
import type { Concurrency } from './parsers.ts';
import { SettingsError, type SettingsFault } from './settings-error.ts';
import { collectSources, type SettingsOverrides, type Sources } from './sources.ts';

/** What a process of the pool was told by its environment. Frozen in all its depth. */
export interface Settings {
  readonly redis: {
    /** null: none was named, so an embedded one serves. May hold a password. */
    readonly url: string | null;
    /** Before every key; a hash tag of its own, braces included. */
    readonly prefix: string;
  };
  readonly policy: {
    /** Base URLs without `/v1` and without a slash at the end; empty: none was named. */
    readonly urls: readonly string[];
    readonly apiKey: string | null;
    /** null: the only model the server lists. */
    readonly model: string | null;
    /** Whether the engine streams its answers to the worker, where its streams carry ids. */
    readonly streaming: boolean;
    /** How the model writes tool calls; `auto`: as a probe finds it; `off`: every prompt is text. */
    readonly toolCallParser: CallFormat | 'auto' | 'off';
    /** Calls of one process that a replica has at once; null: no limit. */
    readonly replicaCalls: number | null;
  };
  readonly worker: {
    /** null: those that a probe finds possible. */
    readonly lanes: readonly Lane[] | null;
    readonly concurrency: Concurrency;
    readonly allowLocal: boolean;
    readonly lockSeconds: number;
    readonly lockRenewSeconds: number;
    readonly stalledSeconds: number;
    readonly maxAttempts: number;
  };
  readonly sandbox: {
    /** Image for tasks that name none; null: there is none. */
    readonly image: string | null;
    /** Absolute path of the Claude Code binary; null: the one of the npm dependency. */
    readonly claudeCli: string | null;
    /** null: the usual sockets. */
    readonly dockerHost: string | null;
    /** Megabytes (2^20) a sandbox may write, where its task says nothing. */
    readonly diskMb: number;
    /** Megabytes (2^20) that must be free before anything starts; 0: not looked at. */
    readonly diskFreeMb: number;
    readonly imageSeconds: number;
    readonly reach: Environment['ROLLPOOL_SANDBOX_REACH'];
    /** CIDR networks that are private and yet may be reached by an allow list. */
    readonly egressPrivate: readonly string[];
    /** Sandboxes kept ready by one process; 0: none. */
    readonly warm: number;
    readonly warmCli: boolean;
    /** Final states kept for grading them again; 0: none. */
    readonly keep: number;
  };
  readonly e2b: {
    /** null: no worker serves the lane. */
    readonly apiKey: string | null;
    /** Without a slash at the end; null: the vendor's. */
    readonly apiUrl: string | null;
    readonly sandboxUrl: string | null;
    readonly domain: string | null;
    /** Template for tasks that name none; null: the one that `template build` makes. */
    readonly template: string | null;
    /** Sandboxes of the whole pool at once. */
    readonly sandboxes: number;
    /** Creations of the whole pool a second. */
    readonly createsPerSecond: number;
  };
  readonly fleet: {
    /** Without a slash at the end; null: the vendor's. */
    readonly baseUrl: string | null;
    /** null: no worker serves Fleet tasks. */
    readonly apiKey: string | null;
    readonly toolMode: Environment['ROLLPOOL_TOOL_MODE'];
    readonly partialReward: boolean;
  };
  /** The flight recorder's bounds; null: it is off. */
  readonly trace: { readonly limitBytes: number; readonly maxAgeMs: number } | null;
  readonly logLevel: Environment['ROLLPOOL_LOG_LEVEL'];
  /** Absolute. */
  readonly stateDir: string;
  /** Lowest layer under a run's and a batch's own. */
  readonly sampling: Sampling;
  /** Lowest layer under a run's, a batch's and a task's own. */
  readonly limits: EffectiveLimits;
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(frozen);
  return Object.freeze(value);
}

/** Reads every text; a variable with a fault keeps its default, so that all faults are found in one go. */
function readTexts(sources: Sources): { environment: Environment; faults: SettingsFault[] } {
  const values: Record<string, string> = {};
  const faults: SettingsFault[] = [];
  for (const [name, source] of Object.entries(sources.texts)) {
    const parsed = environmentSchema.shape[name as VariableName].safeParse(source.text);
    if (parsed.success) {
      values[name] = source.text;
      continue;
    }
    const problem = parsed.error.issues.map((issue) => issue.message).join('; ');
    const shown = noteOf(name as VariableName).secret ? '' : `${JSON.stringify(source.text)}: `;
    faults.push({ variable: source.from, problem: `${shown}${problem}` });
  }
  return { environment: environmentSchema.parse(values), faults };
}

/** Faults that no variable has alone. */
function crossFaults(environment: Environment, sources: Sources): SettingsFault[] {
  const faults: SettingsFault[] = [];
  const name = (variable: VariableName): string => sources.texts[variable]?.from ?? variable;
  const fault = (variable: VariableName, problem: string): void =>
    void faults.push({ variable: name(variable), problem });
  const lanes = environment.ROLLPOOL_LANES;
  if (lanes?.includes('claude_code-local') && !environment.ROLLPOOL_ALLOW_LOCAL) {
    fault(
      'ROLLPOOL_LANES',
      `claude_code-local does not isolate: it needs ${name('ROLLPOOL_ALLOW_LOCAL')}=true as well`,
    );
  }
  for (const lane of Object.keys(environment.ROLLPOOL_CONCURRENCY?.byLane ?? {}) as Lane[]) {
    if (lanes !== undefined && !lanes.includes(lane)) {
      fault('ROLLPOOL_CONCURRENCY', `names ${lane}, which is not in ${name('ROLLPOOL_LANES')}`);
    }
  }
  if (environment.FLEET_BASE_URL !== undefined && environment.FLEET_API_KEY === undefined) {
    fault('FLEET_BASE_URL', 'needs FLEET_API_KEY as well');
  }
  for (const variable of ['E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_DOMAIN'] as const) {
    if (environment[variable] !== undefined && environment.E2B_API_KEY === undefined) {
      fault(variable, 'needs E2B_API_KEY as well');
    }
  }
  if (environment.ROLLPOOL_WARM_CLI && environment.ROLLPOOL_WARM_SANDBOXES === 0) {
    fault('ROLLPOOL_WARM_CLI', `needs ${name('ROLLPOOL_WARM_SANDBOXES')} above 0`);
  }
  if (environment.ROLLPOOL_LOCK_RENEW_SECONDS * 3 > environment.ROLLPOOL_LOCK_SECONDS) {
    fault(
      'ROLLPOOL_LOCK_RENEW_SECONDS',
      `must be at most a third of ${name('ROLLPOOL_LOCK_SECONDS')} (${environment.ROLLPOOL_LOCK_SECONDS})`,
    );
  }
  if (environment.ROLLPOOL_MAX_OUTPUT_TOKENS > environment.ROLLPOOL_CONTEXT_TOKENS) {
    fault(
      'ROLLPOOL_MAX_OUTPUT_TOKENS',
      `must not exceed ${name('ROLLPOOL_CONTEXT_TOKENS')} (${environment.ROLLPOOL_CONTEXT_TOKENS})`,
    );
  }
  return faults;
}

/** The values of the variables named after `fields`. */
function collect<T extends object>(fields: readonly string[], environment: Environment): T {
  return Object.fromEntries(
    fields.map((field) => [field, environment[variableName(field) as VariableName]]),
  ) as T;
}

/**
 * Settings from the environment, overrides (flags) over it.
 *
 * @throws SettingsError with every fault at once: a bad value, a variable that does not exist, a secret given
 *   twice, an unreadable secret file.
 */
export function loadSettings(
  env: Readonly<Record<string, string | undefined>>,
  overrides: SettingsOverrides = {},
): Settings {
  const sources = collectSources(env, overrides);
  const { environment, faults: textFaults } = readTexts(sources);
  const faults = [...sources.faults, ...textFaults];
  // A cross check over values that are themselves wrong would only confuse.
  if (faults.length === 0) faults.push(...crossFaults(environment, sources));
  if (faults.length > 0) throw new SettingsError(faults);

  const stateHome = environment.XDG_STATE_HOME ?? join(homedir(), '.local', 'state');
  const cli = environment.ROLLPOOL_CLAUDE_CLI;
  return frozen({
    redis: { url: environment.REDIS_URL ?? null, prefix: environment.ROLLPOOL_PREFIX },
    policy: {
      urls: environment.ROLLPOOL_POLICY_URL,
      apiKey: environment.ROLLPOOL_POLICY_API_KEY ?? null,
      model: environment.ROLLPOOL_MODEL ?? null,
      streaming: environment.ROLLPOOL_POLICY_STREAMING,
      toolCallParser: environment.ROLLPOOL_TOOL_CALL_PARSER,
      replicaCalls: environment.ROLLPOOL_REPLICA_CALLS ?? null,
    },
    worker: {
      lanes: environment.ROLLPOOL_LANES ?? null,
      concurrency: environment.ROLLPOOL_CONCURRENCY ?? { everyLane: null, byLane: {} },
      allowLocal: environment.ROLLPOOL_ALLOW_LOCAL,
      lockSeconds: environment.ROLLPOOL_LOCK_SECONDS,
      lockRenewSeconds: environment.ROLLPOOL_LOCK_RENEW_SECONDS,
      stalledSeconds: environment.ROLLPOOL_STALLED_SECONDS,
      maxAttempts: environment.ROLLPOOL_MAX_ATTEMPTS,
    },
    sandbox: {
      image: environment.ROLLPOOL_SANDBOX_IMAGE ?? null,
      claudeCli: cli === undefined ? null : resolve(cli),
      dockerHost: environment.DOCKER_HOST ?? null,
      diskMb: environment.ROLLPOOL_SANDBOX_DISK_MB,
      diskFreeMb: environment.ROLLPOOL_DISK_FREE_MB,
      imageSeconds: environment.ROLLPOOL_IMAGE_SECONDS,
      reach: environment.ROLLPOOL_SANDBOX_REACH,
      egressPrivate: environment.ROLLPOOL_EGRESS_PRIVATE,
      warm: environment.ROLLPOOL_WARM_SANDBOXES,
      warmCli: environment.ROLLPOOL_WARM_CLI,
      keep: environment.ROLLPOOL_KEEP_SANDBOXES,
    },
    e2b: {
      apiKey: environment.E2B_API_KEY ?? null,
      apiUrl: environment.E2B_API_URL ?? null,
      sandboxUrl: environment.E2B_SANDBOX_URL ?? null,
      domain: environment.E2B_DOMAIN ?? null,
      template: environment.ROLLPOOL_E2B_TEMPLATE ?? null,
      sandboxes: environment.ROLLPOOL_E2B_SANDBOXES,
      createsPerSecond: environment.ROLLPOOL_E2B_CREATES_PER_SECOND,
    },
    fleet: {
      baseUrl: environment.FLEET_BASE_URL ?? null,
      apiKey: environment.FLEET_API_KEY ?? null,
      toolMode: environment.ROLLPOOL_TOOL_MODE,
      partialReward: environment.ROLLPOOL_PARTIAL_REWARD,
    },
    trace: environment.ROLLPOOL_TRACE
      ? {
          limitBytes: environment.ROLLPOOL_TRACE_MB * 2 ** 20,
          maxAgeMs: environment.ROLLPOOL_TRACE_HOURS * 3_600_000,
        }
      : null,
    logLevel: environment.ROLLPOOL_LOG_LEVEL,
    stateDir: resolve(environment.ROLLPOOL_STATE_DIR ?? join(stateHome, 'rollpool')),
    sampling: collect<Sampling>(Object.keys(samplingSchema.shape), environment),
    limits: collect<EffectiveLimits>(Object.keys(defaultLimits), environment),
  });
}
