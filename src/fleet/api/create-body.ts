import type { FleetTask } from '../../contracts/index.ts';

/** Body of `POST /v1/env/instances`, without what nobody set. */
export type CreateBody = Readonly<Record<string, unknown>>;

export interface CreateOptions {
  /** By which everything that this creation makes can be found and removed. */
  readonly run_id: string;
  readonly ttl_seconds: number;
  /** Seconds without a heartbeat after which the service removes it: 30 to 3600. */
  readonly heartbeat_interval: number;
  /** Seconds after which the service answers that it takes too long, instead of leaving the call without an answer. */
  readonly max_wait_seconds: number;
}

/** `1.2.5` -> `v1.2.5`: a version that begins with a digit gets its `v`. Source: the vendor's SDK. */
export function normalizeVersion(version: string | null): string | null {
  if (version === null || version === '') return null;
  return /^\d/.test(version) ? `v${version}` : version;
}

/** `key:version`, split at the first colon, unless the version stands by itself. */
function keyAndVersion(
  key: string | null,
  version: string | null,
): { key: string | null; version: string | null } {
  const colon = key?.indexOf(':') ?? -1;
  if (key === null || colon < 0) return { key, version: normalizeVersion(version) };
  return { key: key.slice(0, colon), version: normalizeVersion(version ?? key.slice(colon + 1)) };
}

/** The image that a task needs: its own word, else `mcp` for computer use; null: the service's usual one. */
export function imageTypeOf(task: FleetTask): string | null {
  return task.image_type ?? (task.modality === 'computer_use' ? 'mcp' : null);
}

/** What creates the task's environment. A field that is not set is not sent: the service decides. */
export function createBody(task: FleetTask, options: CreateOptions): CreateBody {
  const environment = keyAndVersion(task.env_key, task.env_version);
  const data = keyAndVersion(task.data_key, task.data_version);
  const body = {
    env_key: environment.key,
    env_version: environment.version,
    data_key: data.key,
    data_version: data.version,
    region: task.region,
    env_variables: Object.keys(task.env_variables).length === 0 ? null : task.env_variables,
    image_type: imageTypeOf(task),
    created_from: 'sdk',
    ttl_seconds: Math.ceil(options.ttl_seconds),
    run_id: options.run_id,
    heartbeat_interval: options.heartbeat_interval,
    max_wait_seconds: options.max_wait_seconds > 0 ? options.max_wait_seconds : null,
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}
