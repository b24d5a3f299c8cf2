import { z } from 'zod';

/** What the policy is asked to sample with. The agent's own values are recorded and ignored. */
export const samplingSchema = z.strictObject({
  /** Default: 1. */
  temperature: z.number().min(0).max(2).default(1),
  /** Default: 1 (whole distribution). */
  top_p: z.number().gt(0).max(1).default(1),
  /** Default: -1 (off). */
  top_k: z.int().min(-1).default(-1),
  /** Default: 0 (off). */
  min_p: z.number().min(0).max(1).default(0),
  presence_penalty: z.number().min(-2).max(2).default(0),
  frequency_penalty: z.number().min(-2).max(2).default(0),
  /** Default: 1 (off). */
  repetition_penalty: z.number().gt(0).max(2).default(1),
  /** Seeds of single calls derive from (seed, episode, attempt, call). Default: null (the engine's own). */
  seed: z.int().nullable().default(null),
});
export type Sampling = z.infer<typeof samplingSchema>;

/** A batch's or a run's overrides of the worker's default sampling. */
export const samplingOverridesSchema = z.strictObject(
  Object.fromEntries(
    Object.entries(samplingSchema.shape).map(([name, field]) => [name, field.unwrap().optional()]),
  ) as {
    [K in keyof typeof samplingSchema.shape]: z.ZodOptional<
      ReturnType<(typeof samplingSchema.shape)[K]['unwrap']>
    >;
  },
);
export type SamplingOverrides = z.infer<typeof samplingOverridesSchema>;

/** Batch over run over worker default. */
export function resolveSampling(...layers: (SamplingOverrides | undefined)[]): Sampling {
  return samplingSchema.parse(Object.assign({}, ...layers));
}
