import { z } from 'zod';
import { certificateSchema, type Certificate } from './certificate.ts';
import { versionSpanSchema } from './version-span.ts';

/** Which agent of the episode spoke: the main one, one it started, or a side call (titles, searches, foreign). */
export const roleSchema = z.enum(['main', 'subagent', 'auxiliary']);
export type Role = z.infer<typeof roleSchema>;

/** One sampled turn: the half-open span [start, end) of a sequence, sampled by the call with index `call`. */
export const turnSchema = z.strictObject({
  start: z.int().nonnegative(),
  end: z.int().nonnegative(),
  call: z.int().nonnegative(),
  version_start: z.int().nullable(),
  version_end: z.int().nullable(),
  /** Which versions sampled which of its tokens, in positions of the sequence; only where the engine says it. */
  version_spans: z.array(versionSpanSchema).exactOptional(),
  temperature: z.number(),
  finish_reason: z.string(),
  truncated: z.boolean(),
});
export type Turn = z.infer<typeof turnSchema>;

/**
 * One token sequence of one agent, in memory. The three arrays have equal length T. `loss_mask` is 1 exactly on
 * sampled tokens; `logprobs` is 0 where the mask is 0 and the engine's own value (float32) where it is 1.
 */
export interface Sequence {
  readonly role: Role;
  readonly agent_id: string;
  readonly token_ids: Int32Array;
  /** Tokens before the first sampled one. */
  readonly prompt_len: number;
  readonly loss_mask: Uint8Array;
  readonly logprobs: Float32Array;
  readonly turns: readonly Turn[];
  readonly certificate: Certificate;
}

/** The same in an export: plain arrays. */
export const sequenceJsonSchema = z.strictObject({
  role: roleSchema,
  agent_id: z.string(),
  token_ids: z.array(z.int()),
  prompt_len: z.int().nonnegative(),
  loss_mask: z.array(z.union([z.literal(0), z.literal(1)])),
  logprobs: z.array(z.number()),
  turns: z.array(turnSchema),
  certificate: certificateSchema,
});
export type SequenceJson = z.infer<typeof sequenceJsonSchema>;
