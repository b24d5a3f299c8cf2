import type { ResultSummary, Status, StopReason } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import type { EpisodeAttempt } from '../queue/processor.ts';
import type { Sandbox, SandboxProvider } from '../sandbox/sandbox.ts';
import { ownerOf } from './boot.ts';
import type { EpisodePorts } from './ports.ts';

/** A kept final state as its result names it. */
export type KeptState = NonNullable<NonNullable<ResultSummary['sandbox']>['snapshot']>;

const killMs = 30_000;
const keepMs = 300_000;

/**
 * Keeps a sandbox as its agent left it, before anything of the verifier enters, and removes the oldest kept ones past the
 * limit. null: nothing is to be kept, or it could not be, which is no reason to lose a grade.
 */
export async function keepState(
  sandbox: Sandbox,
  provider: SandboxProvider | null,
  attempt: EpisodeAttempt,
  ports: Pick<EpisodePorts, 'keep_sandboxes' | 'pool'>,
  ended: { readonly status: Status; readonly stop_reason: StopReason },
  log: Logger,
): Promise<KeptState | null> {
  const limit = ports.keep_sandboxes ?? 0;
  if (limit === 0 || sandbox.snapshot === undefined) return null;
  // What still runs would be caught in the middle of a write.
  await sandbox.killAgent(killMs);
  try {
    const name = await sandbox.snapshot(ownerOf(attempt, ports.pool), keepMs);
    for (const { name: old } of ((await provider?.listSnapshots?.(ports.pool)) ?? []).slice(limit)) {
      if (old !== name) await provider?.removeSnapshot?.(old);
    }
    return { name, ...ended };
  } catch (error) {
    attempt.signal.throwIfAborted();
    log.warn({ err: error }, 'the final state of the sandbox was not kept');
    return null;
  }
}
