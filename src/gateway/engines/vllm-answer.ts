import type { UntrainableReason } from '../../contracts/index.ts';
import {
  contentOf,
  ids,
  logprobEntries,
  object,
  reasoningOf,
  sameIds,
  text,
  toolCallsOf,
  usageOf,
} from './completion-parts.ts';
import type { EngineAnswer } from './engine.ts';
import { parseLenientJson } from './lenient-json.ts';
import { scanCompletion } from './scan/completion-scan.ts';

/** A chat completion of vLLM, parsed or scanned (facts: token capture 1.1 and 1.2). Null when it is no completion at all. */
export function vllmAnswer(body: unknown): EngineAnswer | null {
  const root = object(body);
  const choices = root?.['choices'];
  const choice = Array.isArray(choices) ? object(choices[0]) : null;
  const message = object(choice?.['message']);
  if (root === null || choice === null || message === null) return null;

  const listed = ids(choice['token_ids']);
  const entries = logprobEntries(choice['logprobs']);
  const reasons: UntrainableReason[] = [];
  if (listed !== null && entries !== null && entries.ids !== null && !sameIds(listed, entries.ids))
    reasons.push('length_mismatch');
  const finish = text(choice['finish_reason']);
  const calls = toolCallsOf(message['tool_calls']);
  return {
    content: contentOf(text(message['content']), calls),
    reasoning: reasoningOf(message),
    tool_calls: calls,
    finish_reason: finish,
    stop_sequence: text(choice['stop_reason']),
    refusal: finish === 'content_filter' || (text(message['refusal']) ?? '') !== '',
    prompt_token_ids: ids(root['prompt_token_ids']) ?? ids(choice['prompt_token_ids']),
    token_ids: listed ?? entries?.ids ?? null,
    logprobs: entries?.logprobs ?? null,
    usage: usageOf(root['usage']),
    reasons,
  };
}

/** The bytes of vLLM's unary answer. Null when they are JSON and no completion; throws SyntaxError when they are no JSON. */
export function readVllmAnswer(bytes: Buffer): EngineAnswer | null {
  return vllmAnswer(scanCompletion(bytes) ?? parseLenientJson(bytes.toString()));
}
