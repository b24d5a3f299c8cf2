import { randomBytes } from 'node:crypto';
import { makeRuntimeDirectory } from '../../workers/runtime-directory.ts';
import type { Settings } from '../config/index.ts';
import {
  loadEnvironments,
  shippedEnvironments,
  startLocalFleet,
  type LocalFleet,
  type LocalFleetOptions,
} from '../local-fleet/index.ts';
import type { Logger } from '../observe/index.ts';
import { BadUse } from './bad-use.ts';

export interface RunFleet extends AsyncDisposable {
  /** The settings with the service in them. */
  readonly settings: Settings;
  /** What a worker's environment needs to reach it, over its own. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Its URL when it was started here; null for a service that the settings name. */
  readonly local: string | null;
}

export interface RunFleetOptions {
  readonly settings: Settings;
  /** What the run's tasks want: `env_key` -> tasks. */
  readonly wanted: Readonly<Record<string, number>>;
  /** Folder of further environments; null: only those that ship. */
  readonly environments: string | null;
  readonly log: Logger;
}

/**
 * A local Fleet whose files are in a directory that says whose they are: the pool's next sweep removes it where its process
 * was killed.
 */
export async function openLocalFleet(
  pool: string,
  options: Omit<LocalFleetOptions, 'directory'>,
): Promise<Pick<LocalFleet, 'url'> & AsyncDisposable> {
  const runtime = await makeRuntimeDirectory('local-fleet', pool);
  try {
    const fleet = await startLocalFleet({ ...options, directory: runtime.path });
    return {
      url: fleet.url,
      [Symbol.asyncDispose]: async () => {
        await fleet[Symbol.asyncDispose]();
        await runtime[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await runtime[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * The Fleet service of a run: the one of the settings, else a local one in this process for as long as the run takes.
 * BadUse when the local one would not have an environment that a task wants.
 */
export async function openRunFleet(options: RunFleetOptions): Promise<RunFleet> {
  const { settings, wanted, environments, log } = options;
  const nothing = { settings, env: {}, local: null, [Symbol.asyncDispose]: async () => {} };
  if (settings.fleet.apiKey !== null) {
    if (environments !== null) {
      throw new BadUse('--environments is for the local Fleet, but FLEET_API_KEY names a service');
    }
    return nothing;
  }
  const keys = Object.keys(wanted);
  if (keys.length === 0) return nothing;
  const own = environments === null ? [] : await loadEnvironments(environments);
  const ownKeys = new Set(own.map(({ env_key }) => env_key));
  const served = [...own, ...(await shippedEnvironments()).filter(({ env_key }) => !ownKeys.has(env_key))];
  const missing = keys.filter((key) => !served.some(({ env_key }) => env_key === key));
  if (missing.length > 0) {
    throw new BadUse(
      `no environment ${missing.join(', ')} in the local Fleet (it has ${served.map(({ env_key }) => env_key).join(', ')}): ` +
        'set FLEET_API_KEY for the service that has it, or give --environments',
    );
  }
  const apiKey = randomBytes(16).toString('hex');
  const fleet = await openLocalFleet(settings.redis.prefix, { environments: served, apiKey, log });
  return {
    settings: { ...settings, fleet: { ...settings.fleet, baseUrl: fleet.url, apiKey } },
    env: {
      FLEET_BASE_URL: fleet.url,
      FLEET_API_KEY: apiKey,
      FLEET_API_KEY_FILE: undefined,
    },
    local: fleet.url,
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}
