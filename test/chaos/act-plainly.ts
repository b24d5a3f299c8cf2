import type { EpisodeAttempt, EpisodeOutput } from '../../src/queue/processor.ts';
import { outputOf } from '../queue/outputs.ts';
import { rewardOf } from './reward-of.ts';

/** Payload and reward both come from the attempt's nonce, so that a mixture of two attempts shows. */
export async function actPlainly(attempt: EpisodeAttempt): Promise<EpisodeOutput> {
  return outputOf(attempt, rewardOf(attempt.nonce));
}
