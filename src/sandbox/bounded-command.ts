/** A command that runs: how a provider shows it to `runBounded`. */
export interface RunningCommand {
  /** Its exit code once it ended; all its output was given before. Never rejects. */
  readonly exited: Promise<number | null>;
  /** Ends it with everything it started. Rejects when that cannot be done. */
  kill(): Promise<void>;
}

const longestTimerMs = 2 ** 31 - 1;

/**
 * Waits for a command, and kills its whole tree at the deadline or when the signal aborts. Rejects with the signal's
 * reason, or with what kept the tree from being killed: then nothing is waited for, as it may never end.
 */
export async function runBounded(
  command: RunningCommand,
  bounds: { readonly timeout_ms: number; readonly signal?: AbortSignal | undefined },
): Promise<{ code: number | null; timedOut: boolean }> {
  const { signal } = bounds;
  let interruption: 'deadline' | 'abort' | undefined;
  let killed: Promise<void> = Promise.resolve();
  let interrupt: (by: 'deadline' | 'abort') => void = () => undefined;
  const unkillable = new Promise<never>((_resolve, reject) => {
    interrupt = (by) => {
      if (interruption !== undefined) return;
      interruption = by;
      killed = command.kill();
      killed.catch(reject);
    };
  });
  const timer = setTimeout(() => interrupt('deadline'), Math.min(bounds.timeout_ms, longestTimerMs));
  const onAbort = (): void => interrupt('abort');
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const code = await Promise.race([command.exited, unkillable]);
    await killed;
    if (interruption === 'abort') throw signal?.reason;
    return { code: interruption === 'deadline' ? null : code, timedOut: interruption === 'deadline' };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Kills a command when the signal aborts, as long as it runs. */
export function killOnAbort(command: RunningCommand, signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  const onAbort = (): void => void command.kill().catch(() => undefined);
  signal.addEventListener('abort', onAbort, { once: true });
  void command.exited.then(() => signal.removeEventListener('abort', onAbort));
  if (signal.aborted) onAbort();
}
