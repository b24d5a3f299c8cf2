import { createHash } from 'node:crypto';

/** The seed of one call, from (seed, episode, attempt, call): samples of a group differ, and a call can be drawn again. */
export function callSeed(seed: number, episodeId: string, attempt: number, call: number): number {
  const digest = createHash('sha256')
    .update(JSON.stringify([seed, episodeId, attempt, call]))
    .digest();
  return digest.readUInt32BE(0) & 0x7fffffff;
}
