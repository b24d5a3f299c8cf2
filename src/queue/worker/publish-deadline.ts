import { EpisodeError } from '../../contracts/index.ts';

/**
 * Waits for a publish at most `seconds`, then rejects with an EpisodeError (infra, `publish_timeout`). What was sent to
 * Redis cannot be called back: it may still come through, and then the first result wins as always.
 */
export async function withinPublishDeadline<T>(publish: Promise<T>, seconds: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(
        new EpisodeError({
          class: 'infra',
          phase: 'publish',
          code: 'publish_timeout',
          message: `the result could not be stored within ${seconds} s`,
        }),
      );
    }, seconds * 1_000);
  });
  try {
    return await Promise.race([publish, late]);
  } finally {
    clearTimeout(timer);
  }
}
