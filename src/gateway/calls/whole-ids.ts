import type { EngineAnswer } from '../engines/engine.ts';

/**
 * An answer's ids, to go on from; null where one is missing or anything the engine said speaks against them: as many
 * logprobs and counted tokens have to be there as ids. A prompt that went on from fewer would not be what was said.
 */
export function wholeIds(
  answer: EngineAnswer,
): { readonly prompt: Int32Array; readonly completion: Int32Array } | null {
  const { prompt_token_ids: prompt, token_ids: completion, logprobs, usage, reasons } = answer;
  if (prompt === null || completion === null || completion.length === 0 || reasons.length > 0) return null;
  if (logprobs !== null && logprobs.length !== completion.length) return null;
  if (
    usage !== null &&
    (usage.prompt_tokens !== prompt.length || usage.completion_tokens !== completion.length)
  )
    return null;
  return { prompt, completion };
}
