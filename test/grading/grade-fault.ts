import { expect } from 'vitest';
import { failureSchema, type Failure } from '../../src/contracts/index.ts';
import { GradeError } from '../../src/grading/index.ts';

/** What grading rejects with: its failure, as a result holds it, and the outcomes so far. */
export async function gradeFault(
  grading: Promise<unknown>,
): Promise<Failure & { outcomes: GradeError['outcomes'] }> {
  const error: unknown = await grading.then(
    (value) => value,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(GradeError);
  const { failure, outcomes } = error as GradeError;
  // A result is refused with fields that its schema does not know.
  return { ...failureSchema.parse(failure), outcomes };
}
