import { z } from 'zod';
import { malformed } from './refusal.ts';

const counted = {
  /** Calls it is done to. Default: 1. */
  times: z.int().positive().default(1),
  /** Calls let through first. Default: 0. */
  skip: z.int().min(0).default(0),
};

/** What a test can have the server do wrong, for the next calls that sample. */
const faultSchema = z.discriminatedUnion('kind', [
  /** Answer with this status; `retry_after` in seconds. */
  z.strictObject({
    kind: z.literal('status'),
    status: z.int().min(400).max(599),
    message: z.string().optional(),
    retry_after: z.number().min(0).optional(),
    ...counted,
  }),
  /** Never answer; with `headers` only after the status line and headers. */
  z.strictObject({ kind: z.literal('hang'), headers: z.boolean().default(false), ...counted }),
  /** Answer this much later, in milliseconds. */
  z.strictObject({ kind: z.literal('slow'), ms: z.int().positive(), ...counted }),
  /** Cut the connection in the middle of the body. */
  z.strictObject({ kind: z.literal('die'), ...counted }),
  /** In a stream: an error event half-way and `[DONE]` after it. Unary: status 500. */
  z.strictObject({ kind: z.literal('stream_error'), ...counted }),
  /** One logprob, at `position` (from 0, negative from the end), is wrong. `missing` drops its entry. */
  z.strictObject({
    kind: z.literal('logprob'),
    value: z.enum(['nan', 'null', 'default', 'positive', 'missing']),
    position: z.int().default(0),
    ...counted,
  }),
  /** No logprobs at all. */
  z.strictObject({ kind: z.literal('no_logprobs'), ...counted }),
  /** One id fewer than was sampled. */
  z.strictObject({ kind: z.literal('short_ids'), ...counted }),
  z.strictObject({ kind: z.literal('no_ids'), ...counted }),
  z.strictObject({ kind: z.literal('no_prompt_ids'), ...counted }),
  /** `usage.completion_tokens` (or `prompt_tokens`) is off by this much. */
  z.strictObject({
    kind: z.literal('usage'),
    by: z.int().default(1),
    field: z.enum(['completion_tokens', 'prompt_tokens']).default('completion_tokens'),
    ...counted,
  }),
  /**
   * SGLang: the weights become `version` once `position` tokens of the answer are sampled (default: half of them). Later
   * answers are of that version.
   */
  z.strictObject({
    kind: z.literal('weights'),
    version: z.string().min(1),
    position: z.int().min(0).optional(),
    ...counted,
  }),
  /** Half the answer with finish_reason `abort`, as after a pause in mode abort. */
  z.strictObject({ kind: z.literal('abort'), ...counted }),
]);
export type Fault = z.infer<typeof faultSchema>;
export type FaultInput = z.input<typeof faultSchema>;

const faultsSchema = z.union([z.array(faultSchema), faultSchema.transform((fault) => [fault])]);

/** The faults still to be done, in order. A call takes at most one of each kind. */
export class FaultQueue {
  #waiting: { fault: Fault; skip: number; times: number }[] = [];

  add(input: unknown): void {
    const result = faultsSchema.safeParse(input);
    if (!result.success) {
      const [issue] = result.error.issues;
      throw malformed(`faults: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`);
    }
    for (const fault of result.data) this.#waiting.push({ fault, skip: fault.skip, times: fault.times });
  }

  clear(): void {
    this.#waiting = [];
  }

  /** The faults of the call that begins now. */
  take(): Fault[] {
    const taken: Fault[] = [];
    for (const entry of this.#waiting) {
      if (taken.some(({ kind }) => kind === entry.fault.kind)) continue;
      if (entry.skip > 0) {
        entry.skip -= 1;
        continue;
      }
      entry.times -= 1;
      taken.push(entry.fault);
    }
    this.#waiting = this.#waiting.filter((entry) => entry.times > 0);
    return taken;
  }
}

export function faultOf<K extends Fault['kind']>(
  faults: readonly Fault[],
  kind: K,
): Extract<Fault, { kind: K }> | undefined {
  return faults.find((fault): fault is Extract<Fault, { kind: K }> => fault.kind === kind);
}
