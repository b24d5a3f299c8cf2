import type { EffectiveLimits, Verify, VerifyOutcome } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Restored } from './leading-files.ts';
import { prepareWorkdir, type Room } from './prepare.ts';
import { computeReward, type RewardResult } from './reward.ts';
import { readRewardFile } from './reward-file.ts';
import { runCommands, type VerifyRun } from './run-commands.ts';

export const nothingRestored: Restored = { remove: [], write: {} };

/** What a verifier came to in a sandbox. */
export interface Verified {
  readonly room: Room;
  readonly run: VerifyRun;
  readonly result: RewardResult;
}

export interface VerifierInput {
  readonly verify: Verify;
  readonly limits: EffectiveLimits;
  readonly restored?: Restored;
  readonly hashed?: readonly string[];
  readonly agentStartedAt?: number | null;
  readonly signal: AbortSignal;
}

/** Makes room in a sandbox where nothing of an agent's runs, runs the commands and takes the reward by the task's rule. */
export async function runVerifier(
  sandbox: Sandbox,
  { verify, limits, restored = nothingRestored, hashed = [], agentStartedAt = null, signal }: VerifierInput,
  outcomes: VerifyOutcome[],
): Promise<Verified> {
  const timeoutMs = limits.grade_total_seconds * 1000;
  const room = await prepareWorkdir(sandbox, { verify, restored, hashed, agentStartedAt, timeoutMs, signal });
  const run = await runCommands(sandbox, verify, room.env, limits, signal, outcomes);
  const file = await readRewardFile(sandbox, verify, room, signal);
  const result = computeReward(verify, run.outcomes, file.text, run.cutShort || file.unread);
  return { room, run, result };
}
