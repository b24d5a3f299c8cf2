import { z } from 'zod';

/**
 * Tokens [start, end) that one version of the weights sampled. `version` as the engine says it: a number where its word is a
 * whole number, as trainers push them, else its name.
 */
export const versionSpanSchema = z.strictObject({
  start: z.int().nonnegative(),
  end: z.int().nonnegative(),
  version: z.union([z.int().nonnegative(), z.string()]),
});
export type VersionSpan = z.infer<typeof versionSpanSchema>;
