import { z } from 'zod';

/** Why a sequence may not be trained on. A closed list. */
export const untrainableReasonSchema = z.enum([
  'ids_missing',
  'length_mismatch',
  'bad_logprob',
  'prompt_ids_missing',
  'usage_mismatch',
  'undelivered',
  'aborted',
  'greedy',
  'multimodal_inputs_absent',
  'raw_logprobs_with_temperature',
  'truncated_support',
]);
export type UntrainableReason = z.infer<typeof untrainableReasonSchema>;

/** What a trainer may want to know of a sequence that it may train on. A closed list. */
export const certificateNoteSchema = z.enum([
  'mixed_version',
  'version_uncertain',
  'guided_decoding',
  'foreign_client',
  'truncated_turn',
  'replica_moved',
]);
export type CertificateNote = z.infer<typeof certificateNoteSchema>;

/**
 * `exact`: the agent's calls form one chain. `forked`: all checks hold, but the agent's history was rewritten,
 * so its calls form several. `untrainable`: a check failed.
 */
export const gradeSchema = z.enum(['exact', 'forked', 'untrainable']);
export type Grade = z.infer<typeof gradeSchema>;

export const certificateSchema = z.strictObject({
  grade: gradeSchema,
  reasons: z.array(untrainableReasonSchema),
  notes: z.array(certificateNoteSchema),
});
export type Certificate = z.infer<typeof certificateSchema>;
