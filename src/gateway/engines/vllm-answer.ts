import type { UntrainableReason } from '../../contracts/index.ts';
import { firstChoice, ids, logprobEntries, sameIds, spokenIn } from './completion-parts.ts';
import type { EngineAnswer } from './engine.ts';
import { parseLenientJson } from './lenient-json.ts';
import { scanCompletion } from './scan/completion-scan.ts';

/** A chat completion of vLLM, parsed or scanned (facts: token capture 1.1 and 1.2). Null when it is no completion at all. */
export function vllmAnswer(body: unknown): EngineAnswer | null {
  const found = firstChoice(body);
  if (found === null) return null;
  const { root, choice } = found;

  const listed = ids(choice['token_ids']);
  const entries = logprobEntries(choice['logprobs']);
  const reasons: UntrainableReason[] = [];
  if (listed !== null && entries !== null && entries.ids !== null && !sameIds(listed, entries.ids))
    reasons.push('length_mismatch');
  return {
    ...spokenIn(found, 'stop_reason'),
    prompt_token_ids: ids(root['prompt_token_ids']) ?? ids(choice['prompt_token_ids']),
    token_ids: listed ?? entries?.ids ?? null,
    logprobs: entries?.logprobs ?? null,
    reasons,
  };
}

/** The bytes of vLLM's unary answer. Null when they are JSON and no completion; throws SyntaxError when they are no JSON. */
export function readVllmAnswer(bytes: Buffer): EngineAnswer | null {
  return vllmAnswer(scanCompletion(bytes) ?? parseLenientJson(bytes.toString()));
}
