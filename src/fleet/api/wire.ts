import { z } from 'zod';
import { FleetApiError } from './api-error.ts';

/*
 * What is read of answers; what else is in them is left alone. Source: models of the vendor's SDK, 0.2.133. Fields that
 * nobody reads are not asked for, so that a service that leaves them out still works.
 */

export const instanceSchema = z.object({
  instance_id: z.string().min(1),
  status: z.string(),
  env_key: z.string().nullish(),
  version: z.string().nullish(),
  created_at: z.string().nullish(),
  region: z.string().nullish(),
  run_id: z.string().nullish(),
  heartbeat_region: z.string().nullish(),
  urls: z
    .object({
      root: z.string().nullish(),
      manager: z.object({ api: z.string().nullish() }).nullish(),
    })
    .nullish(),
});
export type Instance = z.infer<typeof instanceSchema>;

export const accountSchema = z.object({
  team_id: z.string().nullish(),
  team_name: z.string().nullish(),
  instance_limit: z.number().nullish(),
  instance_count: z.number().nullish(),
});
export type Account = z.infer<typeof accountSchema>;

export const environmentTypeSchema = z.object({
  env_key: z.string(),
  name: z.string().nullish(),
  description: z.string().nullish(),
  default_version: z.string().nullish(),
  versions: z.record(z.string(), z.unknown()).nullish(),
});
export type EnvironmentType = z.infer<typeof environmentTypeSchema>;

export const runSchema = z.object({
  run_id: z.string(),
  running_count: z.number(),
  total_count: z.number(),
});
export type Run = z.infer<typeof runSchema>;

export const heartbeatSchema = z.object({
  success: z.boolean(),
  deadline_timestamp: z.number().nullish(),
  interval_seconds: z.number().nullish(),
});
export type Heartbeat = z.infer<typeof heartbeatSchema>;

export const verifierSchema = z.object({ code: z.string(), sha256: z.string().nullish() });
export type StoredVerifier = z.infer<typeof verifierSchema>;

export const verifierCheckSchema = z.object({ success: z.boolean() });

export const executionSchema = z.object({
  success: z.boolean(),
  result: z.unknown().optional(),
  /** `{type, message, traceback}` on the wire; anything is taken, since it is only told on. */
  error: z.unknown().optional(),
  stdout: z.string().nullish(),
  execution_time_ms: z.number().nullish(),
});
export type Execution = z.infer<typeof executionSchema>;

export const resetSchema = z.object({ success: z.boolean(), message: z.string().nullish() });

export const resourceSchema = z.object({ name: z.string(), type: z.string(), mode: z.string().nullish() });
export type Resource = z.infer<typeof resourceSchema>;
export const resourcesSchema = z.union([
  z.array(resourceSchema),
  z.object({ resources: z.array(resourceSchema) }).transform(({ resources }) => resources),
]);

/** A query that failed is `success: false` in a 200. */
export const querySchema = z.object({
  success: z.boolean(),
  columns: z.array(z.string()).nullish(),
  rows: z.array(z.array(z.unknown())).nullish(),
  rows_affected: z.number().nullish(),
  last_insert_id: z.number().nullish(),
  error: z.string().nullish(),
  message: z.string().nullish(),
});
export type QueryAnswer = z.infer<typeof querySchema>;

export const describeSchema = z.object({
  success: z.boolean(),
  tables: z
    .array(z.object({ name: z.string(), sql: z.string().nullish(), columns: z.array(z.unknown()).nullish() }))
    .nullish(),
  error: z.string().nullish(),
  message: z.string().nullish(),
});
export type DescribeAnswer = z.infer<typeof describeSchema>;

export const diffSchema = z.object({
  success: z.boolean(),
  diff: z.unknown().optional(),
  message: z.string().nullish(),
});
export type DiffAnswer = z.infer<typeof diffSchema>;

export const healthSchema = z.object({ status: z.string(), service: z.string().nullish() });
export type Health = z.infer<typeof healthSchema>;

export const regionsSchema = z.array(z.string());

/** Reads an answer, or one clear error that names the fields at fault. */
export function readAnswer<S extends z.ZodType>(schema: S, answer: unknown, call: string): z.infer<S> {
  const result = schema.safeParse(answer);
  if (result.success) return result.data;
  const faults = result.error.issues
    .slice(0, 3)
    .map((issue) => `${issue.path.join('.') || 'the answer'}: ${issue.message}`)
    .join('; ');
  throw new FleetApiError(`${call} answered in a shape that is not known (${faults})`, {
    kind: 'malformed',
    transient: false,
    status: 200,
  });
}
