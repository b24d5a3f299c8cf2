import { EpisodeError, type Failure } from '../../src/contracts/index.ts';

/** The failure that work rejects with; fails when it succeeds, or rejects with anything else. */
export async function failureOf(work: Promise<unknown>): Promise<Failure> {
  const error: unknown = await work.then(
    () => new Error('it succeeded'),
    (reason: unknown) => reason,
  );
  if (error instanceof EpisodeError) return error.failure;
  throw error;
}
