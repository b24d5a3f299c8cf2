import { z } from 'zod';

/** What a trainer said of the policy: the value of the policy key, as JSON. */
export const policyRecordSchema = z.object({
  schema: z.literal(1),
  /** Counts changes of this record. */
  revision: z.int().nonnegative(),
  /** Version of the weights on every replica that `replicas` does not name; null when nobody said. */
  version: z.int().nullable(),
  replicas: z.record(z.string(), z.int()),
  /** True while new model calls are to wait. */
  paused: z.boolean(),
  /** Counts changes of `version` made without a pause. */
  unpaused_changes: z.int().nonnegative(),
  /** The same for each replica whose own version was set. */
  unpaused_by_replica: z.record(z.string(), z.int().nonnegative()).default({}),
  /** Counts pauses that asked for calls in flight to be ended. */
  cuts: z.int().nonnegative().default(0),
  /** Epoch milliseconds. */
  updated_at: z.number(),
});
export type PolicyRecord = z.infer<typeof policyRecordSchema>;

/** What holds before anybody said anything. */
export const noPolicyRecord: PolicyRecord = Object.freeze({
  schema: 1,
  revision: 0,
  version: null,
  replicas: {},
  paused: false,
  unpaused_changes: 0,
  unpaused_by_replica: {},
  cuts: 0,
  updated_at: 0,
});

/** Reads the policy key's value. @throws when it is not a record of a schema this code knows. */
export function parsePolicyRecord(text: string | null): PolicyRecord {
  return text === null ? noPolicyRecord : policyRecordSchema.parse(JSON.parse(text));
}
