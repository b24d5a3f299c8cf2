import type { CallRecord, Sampling, UntrainableReason } from '../contracts/index.ts';
import { promptIds } from './chains.ts';

/** What vLLM writes, and clamps to, where it has no logprob (facts: token capture 1.2). */
export const missingLogprob = -9999;

/** A logprob that can be one: a number, not positive, not the engine's word for "none". */
function isSound(logprob: number): boolean {
  return logprob <= 0 && logprob > missingLogprob;
}

/** Whether tokens were drawn from less than, or something other than, the policy's own distribution. */
function supportIsTruncated(sampling: Sampling): boolean {
  return (
    sampling.top_p < 1 ||
    sampling.top_k > 0 ||
    sampling.min_p > 0 ||
    sampling.presence_penalty !== 0 ||
    sampling.frequency_penalty !== 0 ||
    sampling.repetition_penalty !== 1
  );
}

/** Whether the request itself brought an image: token ids alone are then not the policy's whole input. */
export function bringsImage(call: CallRecord): boolean {
  return call.new_messages.some(
    (message) =>
      message.role === 'user' &&
      typeof message.content !== 'string' &&
      message.content.some((part) => part.type === 'image_url'),
  );
}

function arrayReasons(call: CallRecord): UntrainableReason[] {
  const reasons: UntrainableReason[] = [];
  const { token_ids: ids, logprobs, usage } = call;
  const prompt = promptIds(call);
  // An engine samples one token at least, and ids are not negative: anything else was not given.
  if (ids === null || ids.length === 0 || ids.some((id) => id < 0)) reasons.push('ids_missing');
  if (prompt === null) reasons.push('prompt_ids_missing');
  if (ids !== null && logprobs !== null && ids.length !== logprobs.length) reasons.push('length_mismatch');
  if (logprobs === null || !logprobs.every(isSound)) reasons.push('bad_logprob');
  if (
    usage === null ||
    (ids !== null && usage.completion_tokens !== ids.length) ||
    (prompt !== null && usage.prompt_tokens !== prompt.length)
  )
    reasons.push('usage_mismatch');
  return reasons;
}

function samplingReasons(call: CallRecord): UntrainableReason[] {
  const reasons: UntrainableReason[] = [];
  const { temperature } = call.sampling;
  if (temperature === 0) reasons.push('greedy');
  // A mode that no probe found may be raw: only `processed` is sure to be the distribution sampled from.
  if (temperature !== 1 && call.logprobs_mode !== 'processed') reasons.push('raw_logprobs_with_temperature');
  if (supportIsTruncated(call.sampling)) reasons.push('truncated_support');
  return reasons;
}

/** Finish reasons of an answer that the engine cut short, or of which it did not say how it ended. */
const cutShort: readonly (string | null)[] = ['abort', 'error', null];

/** Every reason why the sampled tokens of one delivered call may not be trained on. Empty: they may. */
export function callReasons(call: CallRecord): UntrainableReason[] {
  return [
    ...call.reasons,
    ...arrayReasons(call),
    ...samplingReasons(call),
    ...(cutShort.includes(call.finish_reason) ? (['aborted'] as const) : []),
    ...(bringsImage(call) ? (['multimodal_inputs_absent'] as const) : []),
  ];
}
