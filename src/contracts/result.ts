import { z } from 'zod';
import { failureSchema } from './failure.ts';
import { samplingSchema } from './sampling.ts';
import { sequenceJsonSchema } from './sequence.ts';

export const resultSchemaName = 'rollpool.result/1';

/** `completed`: ended by itself and graded. `truncated`: a budget ended it, and it was graded. `failed`: no grade. */
export const statusSchema = z.enum(['completed', 'truncated', 'failed', 'cancelled']);
export type Status = z.infer<typeof statusSchema>;

export const stopReasonSchema = z.enum([
  'agent_done',
  'max_turns',
  'max_tokens',
  'context_overflow',
  'timeout',
  'refusal',
  'agent_error',
  'infra',
  'task_error',
  'cancelled',
  'expired',
  'stale',
]);
export type StopReason = z.infer<typeof stopReasonSchema>;

const seconds = z.number().nonnegative();

/** How one verify command ended; tails are the last characters of its output. */
export const verifyOutcomeSchema = z.strictObject({
  command: z.string(),
  /** null when it was killed at its deadline. */
  exit_code: z.int().nullable(),
  stdout_tail: z.string(),
  stderr_tail: z.string(),
  seconds,
});
export type VerifyOutcome = z.infer<typeof verifyOutcomeSchema>;

/** An episode whose kept final state was graded again. */
export const regradeSourceSchema = z.strictObject({
  run_id: z.string(),
  batch_id: z.string(),
  episode_id: z.string(),
  attempt: z.int(),
  sample_index: z.int(),
  provider: z.string(),
  /** Name of the kept state. */
  snapshot: z.string(),
  /** The reward it had then. */
  reward: z.number().nullable(),
});
export type RegradeSource = z.infer<typeof regradeSourceSchema>;

const policySchema = z.strictObject({
  model: z.string(),
  version_start: z.int().nullable(),
  version_end: z.int().nullable(),
  /** `pushed` by a trainer, read from the `engine`, or `none`. */
  version_source: z.enum(['pushed', 'engine', 'none']),
  logprobs_mode: z.enum(['processed', 'raw', 'unknown']),
});

/** What grading again takes over from the episode it grades. */
export const regradeOrderSchema = z.strictObject({
  source: regradeSourceSchema,
  status: statusSchema,
  stop_reason: stopReasonSchema,
  policy: policySchema,
  sampling: samplingSchema,
});
export type RegradeOrder = z.infer<typeof regradeOrderSchema>;

/** A result without its sequences and trace: what the results queue and the streams carry. */
export const resultSummarySchema = z.object({
  schema: z.literal(resultSchemaName),
  run_id: z.string(),
  batch_id: z.string(),
  episode_id: z.string(),
  /** 1-based; 0 when the episode never started. */
  attempt: z.int().nonnegative(),
  task_key: z.string(),
  kind: z.enum(['claude_code', 'fleet']),
  metadata: z.record(z.string(), z.json()),
  group_id: z.string(),
  group_size: z.int().positive(),
  sample_index: z.int().nonnegative(),
  status: statusSchema,
  stop_reason: stopReasonSchema,
  /** A finite number, or null: not known. A failure of ours is never a zero. */
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  metrics: z.record(z.string(), z.union([z.number(), z.boolean(), z.string()])),
  failure: failureSchema.nullable(),
  policy: policySchema,
  sampling: samplingSchema,
  usage: z.strictObject({
    calls: z.int().nonnegative(),
    prompt_tokens: z.int().nonnegative(),
    completion_tokens: z.int().nonnegative(),
    /** Sampled tokens that stand in no sequence: retries, undelivered and aborted calls. */
    discarded_tokens: z.int().nonnegative(),
  }),
  timing: z.strictObject({
    queued_s: seconds,
    boot_s: seconds,
    setup_s: seconds,
    agent_s: seconds,
    model_s: seconds,
    hold_s: seconds,
    grade_s: seconds,
    total_s: seconds,
  }),
  verify: z.array(verifyOutcomeSchema),
  /** Counts of sequences by certificate grade. */
  grades: z.strictObject({ exact: z.int(), forked: z.int(), untrainable: z.int() }),
  worker: z.string(),
  sandbox: z
    .strictObject({
      provider: z.string(),
      id: z.string(),
      /** The final state as the agent left it, where it was kept, and how the agent had ended. */
      snapshot: z
        .strictObject({ name: z.string(), status: statusSchema, stop_reason: stopReasonSchema })
        .optional(),
    })
    .nullable(),
  /** The episode whose kept final state this result graded again, without a model call; absent: it ran an agent. */
  regrade_of: regradeSourceSchema.optional(),
});
export type ResultSummary = z.infer<typeof resultSummarySchema>;

/** One line of an export. */
export const resultSchema = resultSummarySchema.extend({
  sequences: z.array(sequenceJsonSchema),
});
export type Result = z.infer<typeof resultSchema>;
