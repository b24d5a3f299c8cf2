import { z } from 'zod';
import { Refusal } from '../http/refusal.ts';

/** Body of `POST /v1/verifiers/execute`. */
export const executionRequestSchema = z.object({
  key: z.string().nullish(),
  sha256: z.string().nullish(),
  /** Base64 of the ZIP; without it the sha256 has to be known. */
  bundle: z.base64().nullish(),
  /** Base64 of a pickle. */
  args: z.base64().nullish(),
  args_array: z.array(z.unknown()).nullish(),
  function_name: z
    .string()
    .regex(/^[\p{L}_][\p{L}\p{N}_]*$/u)
    .nullish(),
  /** Seconds. */
  timeout: z.int().min(1).max(300).nullish(),
});
export type ExecutionRequest = z.infer<typeof executionRequestSchema>;

/** `{"env": id}` among the arguments says which instance is graded. Throws 400 when none does. */
export function instanceIdOf({ args_array }: ExecutionRequest): string {
  for (const argument of args_array ?? []) {
    if (typeof argument !== 'object' || argument === null || !('env' in argument)) continue;
    if (typeof argument.env === 'string') return argument.env;
  }
  throw new Refusal(400, "args_array must have an object with 'env', the id of the instance");
}
