import type { Result, ResultSummary, Sequence, SequenceJson } from '../contracts/index.ts';
import type { Payload } from './payload/payload.ts';
import { shortFloat32 } from './short-float.ts';

/** A sequence with plain arrays. Logprobs are the shortest decimals whose float32 is the engine's value. */
export function sequenceToJson(sequence: Sequence): SequenceJson {
  return {
    role: sequence.role,
    agent_id: sequence.agent_id,
    token_ids: Array.from(sequence.token_ids),
    prompt_len: sequence.prompt_len,
    loss_mask: Array.from(sequence.loss_mask, (mask) => (mask === 0 ? 0 : 1)),
    logprobs: Array.from(sequence.logprobs, shortFloat32),
    turns: [...sequence.turns],
    certificate: sequence.certificate,
  };
}

/** What stands in one line of an export, before `JSON.stringify`. `payload` null: the attempt left none. */
export function toResultLine(summary: ResultSummary, payload: Pick<Payload, 'sequences'> | null): Result {
  return { ...summary, sequences: payload?.sequences.map(sequenceToJson) ?? [] };
}
