import { EpisodeError, type Failure, type VerifyOutcome } from '../contracts/index.ts';

/** An episode that could not be graded. Keeps the outcomes of the verify commands that did run. */
export class GradeError extends EpisodeError {
  readonly outcomes: readonly VerifyOutcome[];

  constructor(
    failure: Omit<Failure, 'retryable' | 'phase'> & { retryable?: boolean },
    outcomes: readonly VerifyOutcome[] = [],
    options?: { cause?: unknown },
  ) {
    super({ ...failure, phase: 'grade' }, options);
    this.name = 'GradeError';
    this.outcomes = outcomes;
  }
}
