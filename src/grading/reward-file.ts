import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Verify } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { harborRewardJson, harborRewardText, type HarborRewardTexts } from './harbor-reward.ts';
import { maxJunitBytes } from './junit.ts';
import { innerShell, type Room } from './prepare.ts';
import { maxRewardFileBytes, parseRewardRule } from './reward.ts';

const endLeftovers = readFileSync(new URL('./end-leftovers.sh', import.meta.url), 'utf8');
const endMs = 60_000;

/**
 * Ends what verify commands left running, so that nothing changes the reward file while it is read. False: some of it
 * will not die, which only what was graded can have brought about.
 */
async function endCommands(
  sandbox: Sandbox,
  verify: Verify,
  room: Room,
  signal: AbortSignal,
): Promise<boolean> {
  if (sandbox.isolation === 'process') {
    // Where users are not told apart, the grader is this very worker.
    await sandbox.killAgent(endMs);
    return true;
  }
  const asRoot = verify.user === 'root';
  const script = asRoot ? endLeftovers : '[ "$(id -u)" = 0 ] || kill -9 -1; true';
  const ended = await sandbox.exec(['bash', '--noprofile', '--norc', '-c', script], {
    user: asRoot ? 'root' : 'grader',
    cwd: '/',
    env: innerShell,
    ...(asRoot ? { stdin: room.processes.map((process) => `${process}\0`).join('') } : {}),
    timeout_ms: endMs,
    signal,
  });
  return !asRoot || ended.exit_code === 0;
}

/** What the verifier left as its reward. `unread`: what runs on could change it, so nobody looks. */
export interface RewardText {
  readonly text: string | HarborRewardTexts | null;
  readonly unread: boolean;
}

/** Reads the file (or files) of the task's rule: regular files of sensible size, and no link is followed. */
export async function readRewardFile(
  sandbox: Sandbox,
  verify: Verify,
  room: Room,
  signal: AbortSignal,
): Promise<RewardText> {
  const rule = parseRewardRule(verify.reward);
  if (rule.kind === 'all' || rule.kind === 'fraction') return { text: null, unread: false };
  if (!(await endCommands(sandbox, verify, room, signal))) return { text: null, unread: true };
  const read = async (path: string, maxBytes: number): Promise<string | null> => {
    const bytes = await sandbox.read(path, maxBytes);
    return bytes === null ? null : Buffer.from(bytes).toString('utf8');
  };
  if (rule.kind === 'harbor') {
    const json = await read(harborRewardJson.path, harborRewardJson.maxBytes);
    const text = await read(harborRewardText.path, harborRewardText.maxBytes);
    return { text: { json, text }, unread: false };
  }
  const longest = rule.kind === 'junit' ? maxJunitBytes : maxRewardFileBytes;
  return { text: await read(posix.join(sandbox.workdir, rule.path), longest), unread: false };
}
