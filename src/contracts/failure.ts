import { z } from 'zod';

/** Who answers for a failure: ours or a provider's (`infra`), the policy's (`agent`), the task author's (`task`). */
export const failureClassSchema = z.enum(['infra', 'agent', 'task']);
export type FailureClass = z.infer<typeof failureClassSchema>;

/** The part of an episode in which something happened. */
export const phaseSchema = z.enum(['queue', 'boot', 'setup', 'agent', 'grade', 'publish']);
export type Phase = z.infer<typeof phaseSchema>;

/** Why an episode has no reward. `code` is stable and machine-readable; `message` is for people. */
export const failureSchema = z.strictObject({
  class: failureClassSchema,
  phase: phaseSchema,
  code: z.string().min(1),
  message: z.string(),
  retryable: z.boolean(),
});
export type Failure = z.infer<typeof failureSchema>;

/**
 * The one error type that crosses rooms. It carries its failure class, so that the outcome table is applied
 * at exactly one boundary (src/episode); an error of any other type counts as infra.
 */
export class EpisodeError extends Error {
  readonly failure: Failure;

  constructor(failure: Omit<Failure, 'retryable'> & { retryable?: boolean }, options?: { cause?: unknown }) {
    super(failure.message, options);
    this.name = 'EpisodeError';
    this.failure = { ...failure, retryable: failure.retryable ?? failure.class === 'infra' };
  }
}
