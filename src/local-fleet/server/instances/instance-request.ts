import { z } from 'zod';
import type { LocalEnvironment } from '../../environment/environment.ts';
import { Refusal } from '../http/refusal.ts';
import type { Catalogue } from './catalogue.ts';

const text = z.string().nullish();

/** Body of `POST /v1/env/instances`, as the vendor's SDK sends it. What this server has no use for is read past. */
export const instanceRequestSchema = z.object({
  env_key: z.string().min(1),
  env_version: text,
  data_key: text,
  data_version: text,
  region: text,
  run_id: text,
  image_type: text,
  env_variables: z.record(z.string(), z.unknown()).nullish(),
  /** Seconds from creation. */
  ttl_seconds: z.int().positive().nullish(),
  /** Seconds between heartbeats; without one in time the instance ends. */
  heartbeat_interval: z.int().min(30).max(3600).nullish(),
});
export type InstanceRequest = z.infer<typeof instanceRequestSchema>;

/** What an instance is made of. */
export interface InstancePlan {
  readonly environment: LocalEnvironment;
  readonly data_key: string;
  readonly data_version: string;
  readonly region: string;
  readonly run_id: string | null;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly ttl_seconds: number | null;
  readonly heartbeat_interval: number | null;
}

/** Regions of the service; here each is this machine. */
export const regions = ['us-west-1', 'us-east-1', 'eu-west-2'] as const;

/** Finds what was asked for. Throws 400 with the service's words where there is no such thing. */
export function planInstance(request: InstanceRequest, catalogue: Catalogue): InstancePlan {
  const environment = catalogue.find(request.env_key, request.env_version ?? null);
  const dataKey = request.data_key ?? environment.default_data_key;
  const dataVersion = environment.data.get(dataKey);
  if (dataVersion === undefined) {
    throw new Refusal(400, `Data key '${dataKey}' not found for environment '${environment.env_key}'`);
  }
  if ((request.data_version ?? dataVersion) !== dataVersion) {
    throw new Refusal(
      400,
      `Data version '${request.data_version}' not found for data key '${dataKey}' of environment '${environment.env_key}'`,
    );
  }
  const region = request.region ?? regions[0];
  if (!(regions as readonly string[]).includes(region)) {
    const known = regions.map((name) => `'${name}'`).join(', ');
    throw new Refusal(400, `Region ${region} not supported. Please use [${known}]`);
  }
  return {
    environment,
    data_key: dataKey,
    data_version: dataVersion,
    region,
    run_id: request.run_id ?? null,
    variables: request.env_variables ?? {},
    ttl_seconds: request.ttl_seconds ?? null,
    heartbeat_interval: request.heartbeat_interval ?? null,
  };
}
