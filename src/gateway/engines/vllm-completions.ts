import type { UntrainableReason } from '../../contracts/index.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { ids, logprobOf, object, sameIds, text, usageOf } from './completion-parts.ts';
import type { EngineAnswer, EngineRequest, Spoken } from './engine.ts';
import { asChatSaysIt, parseGeneratedText } from './generated-text.ts';
import { idText } from './id-text.ts';
import { samplingFields } from './vllm-body.ts';

/**
 * The body of vLLM's `/v1/completions`: ids in, ids out (facts: token capture 1.5). Special tokens stay in the text, because
 * tool calls and thinking are read out of it. `logprobs` 0: of the sampled tokens only.
 */
export function vllmCompletionsBody(
  model: string,
  request: EngineRequest,
  promptIds: Int32Array,
  stream: boolean,
): string {
  const { stop } = request;
  const rest = JSON.stringify({
    model,
    max_tokens: request.max_tokens,
    n: 1,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    ...samplingFields(request),
    ...(request.seed === null ? {} : { seed: request.seed }),
    logprobs: 0,
    return_token_ids: true,
    add_special_tokens: false,
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
  });
  return `{"prompt":[${idText(promptIds)}],${rest.slice(1)}`;
}

/** One logprob a sampled token, in a list of its own beside their texts. */
export function tokenLogprobs(value: unknown): Float32Array | null {
  const list = object(value)?.['token_logprobs'];
  if (!Array.isArray(list)) return null;
  const logprobs = new Float32Array(list.length);
  for (let at = 0; at < list.length; at++) logprobs[at] = logprobOf(list[at]);
  return logprobs;
}

/**
 * An answer of that route, parsed, to a prompt of `promptIds`; null when it is none. What was said is read out of the text
 * as the engine's own parsers would. The prompt's ids are the engine's, and ours where it does not repeat them: its count
 * of them is then all that it says, which the certificate compares.
 */
export function vllmCompletionsAnswer(
  body: unknown,
  request: Pick<EngineRequest, 'tools' | 'parallel_tool_calls'>,
  promptIds: Int32Array,
  format: CallFormat,
): EngineAnswer | null {
  const root = object(body);
  const choices = root?.['choices'];
  const choice = Array.isArray(choices) ? object(choices[0]) : null;
  const sampled = text(choice?.['text']);
  if (root === null || choice === null || sampled === null) return null;

  const given = choice['prompt_token_ids'] ?? root['prompt_token_ids'];
  return spokenCompletion(parseGeneratedText(sampled, request.tools, format), request, promptIds, {
    finish: text(choice['finish_reason']),
    stop: text(choice['stop_reason']),
    prompt: given === undefined || given === null ? promptIds : ids(given),
    ids: ids(choice['token_ids']),
    logprobs: tokenLogprobs(choice['logprobs']),
    usage: usageOf(root['usage']),
  });
}

/** What the route says of an answer besides its text. */
export interface CompletionFrame {
  readonly finish: string | null;
  readonly stop: string | null;
  readonly prompt: Int32Array | null;
  readonly ids: Int32Array | null;
  readonly logprobs: Float32Array | null;
  readonly usage: EngineAnswer['usage'];
}

/** An answer of that route to a prompt of `promptIds`, whose text was read. */
export function spokenCompletion(
  spoken: Spoken,
  request: Pick<EngineRequest, 'parallel_tool_calls'>,
  promptIds: Int32Array,
  { finish, stop, prompt, ids: sampled, logprobs, usage }: CompletionFrame,
): EngineAnswer {
  const reasons: UntrainableReason[] = [];
  // It answered another prompt than the one it was asked.
  if (prompt !== null && !sameIds(prompt, promptIds)) reasons.push('length_mismatch');
  return {
    ...asChatSaysIt(spoken, request, finish),
    stop_sequence: stop,
    refusal: finish === 'content_filter',
    prompt_token_ids: prompt,
    token_ids: sampled,
    logprobs,
    usage,
    reasons,
  };
}
