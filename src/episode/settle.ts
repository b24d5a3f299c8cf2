import { EpisodeError } from '../contracts/index.ts';

/**
 * Waits for an agent; when it was told to end and does not come to rest within `seconds`, rejects (infra): what hangs in a
 * sandbox must not hold a place in the worker for good.
 */
export async function settle<T>(running: Promise<T>, signal: AbortSignal, seconds: number): Promise<T> {
  // Once given up, how it ends does not matter any more.
  running.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  let onAbort = (): void => {};
  const stuck = new Promise<never>((_resolve, reject) => {
    const giveUp = (): void =>
      reject(
        new EpisodeError({
          class: 'infra',
          phase: 'agent',
          code: 'agent_stuck',
          message: `the agent did not end within ${seconds} s of being told to`,
        }),
      );
    onAbort = () => {
      timer = setTimeout(giveUp, seconds * 1000);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([running, stuck]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(timer);
  }
}
