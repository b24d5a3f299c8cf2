import type { SandboxProcess } from '../../sandbox/sandbox.ts';
import { within } from './within.ts';

const killMs = 15_000;

export interface WatchedCli {
  readonly exitCode: number | null;
  readonly lingered: boolean;
}

/** Waits for the CLI's end; ends it when the signal aborts, or when it lives on long after its last word. */
export async function watchCli(
  cli: SandboxProcess,
  signal: AbortSignal,
  resultSeen: Promise<void>,
  lingerMs: number,
): Promise<WatchedCli> {
  let onAbort = (): void => {};
  const aborted = new Promise<'aborted'>((resolve) => {
    onAbort = () => resolve('aborted');
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  const exited = cli.exited.then((exitCode): WatchedCli => ({ exitCode, lingered: false }));
  try {
    const first = await Promise.race([exited, aborted, resultSeen.then(() => 'result' as const)]);
    if (first !== 'result') {
      if (first !== 'aborted') return first;
    } else {
      const second = await within(lingerMs, Promise.race([exited, aborted]), 'lingers' as const);
      if (typeof second === 'object') return second;
      if (second === 'lingers') {
        await within(killMs, cli.kill(), undefined);
        return { exitCode: null, lingered: true };
      }
    }
    // The episode kills whatever else the agent left behind; this is the CLI and its descendants.
    await within(killMs, cli.kill(), undefined);
    throw signal.reason;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
