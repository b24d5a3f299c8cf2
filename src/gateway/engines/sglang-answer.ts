import type { UntrainableReason } from '../../contracts/index.ts';
import {
  count,
  firstChoice,
  ids,
  isId,
  logprobEntries,
  logprobOf,
  object,
  sameIds,
  spokenIn,
  text,
  type Json,
  type LogprobList,
} from './completion-parts.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import type { EngineAnswer, EngineRequest } from './engine.ts';
import { engineVersions } from './engine-versions.ts';
import { asChatSaysIt, parseGeneratedText } from './generated-text.ts';

/** `output_token_logprobs`: `[logprob, id, text or null]` a sampled token. */
function triplets(value: unknown): LogprobList | null {
  if (!Array.isArray(value)) return null;
  const logprobs = new Float32Array(value.length);
  const listed = new Int32Array(value.length);
  let sound = true;
  for (let at = 0; at < value.length; at++) {
    const [logprob, id] = Array.isArray(value[at]) ? (value[at] as readonly unknown[]) : [];
    logprobs[at] = logprobOf(logprob);
    if (isId(id)) listed[at] = id;
    else sound = false;
  }
  return { logprobs, ids: sound ? listed : null };
}

/** What both routes say of the sampled tokens. */
function tokens(
  listed: Int32Array | null,
  pairs: LogprobList | null,
): Pick<EngineAnswer, 'token_ids' | 'reasons'> {
  const reasons: UntrainableReason[] = [];
  if (listed !== null && pairs !== null && (pairs.ids === null || !sameIds(listed, pairs.ids)))
    reasons.push('length_mismatch');
  return { token_ids: listed ?? pairs?.ids ?? null, reasons };
}

/** The response-level extension, which a server can be told to send always: prompt ids, and sampled ids by choice. */
function extension(root: Json): { readonly prompt: Int32Array | null; readonly sampled: Int32Array | null } {
  const ext = object(root['sglext']);
  const output = ext?.['output_ids'];
  return {
    prompt: ids(ext?.['input_ids']),
    sampled: ids(Array.isArray(output) && Array.isArray(output[0]) ? output[0] : output),
  };
}

/** A chat completion of SGLang, parsed (facts: token capture 2). Null when it is no completion at all. */
export function sglangChatAnswer(body: unknown): EngineAnswer | null {
  const found = firstChoice(body);
  if (found === null) return null;
  const { root, choice } = found;

  const ext = extension(root);
  const meta = object(choice['meta_info']);
  const pairs = triplets(meta?.['output_token_logprobs']);
  const entries = logprobEntries(choice['logprobs']);
  const sampled = tokens(ids(choice['token_ids']) ?? ext.sampled, pairs);
  return {
    ...spokenIn(found, 'matched_stop'),
    prompt_token_ids: ids(choice['prompt_token_ids']) ?? ids(root['prompt_token_ids']) ?? ext.prompt,
    ...sampled,
    logprobs: pairs?.logprobs ?? entries?.logprobs ?? null,
    versions: engineVersions(
      [meta, object(root['sglext']), object(root['metadata'])],
      sampled.token_ids?.length ?? 0,
    ),
  };
}

/**
 * An answer of SGLang's `/generate`, parsed, to a request with `promptIds`. Null when it is none. Tool calls are read out
 * of the text where the request has tools.
 */
export function sglangGenerateAnswer(
  body: unknown,
  request: Pick<EngineRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>,
  promptIds: Int32Array,
  format: CallFormat,
): EngineAnswer | null {
  const root = object(body);
  const meta = object(root?.['meta_info']);
  const sampled = text(root?.['text']);
  if (root === null || meta === null || sampled === null) return null;

  const finish = object(meta['finish_reason']);
  const tools = request.tool_choice === 'none' ? undefined : request.tools;
  const pairs = triplets(meta['output_token_logprobs']);
  const listed = tokens(ids(root['output_ids']), pairs);
  return {
    ...asChatSaysIt(parseGeneratedText(sampled, tools, format), request, text(finish?.['type'])),
    stop_sequence: text(finish?.['matched']),
    refusal: false,
    prompt_token_ids: promptIds,
    ...listed,
    logprobs: pairs?.logprobs ?? null,
    versions: engineVersions([meta], listed.token_ids?.length ?? 0),
    usage:
      typeof meta['prompt_tokens'] === 'number'
        ? {
            prompt_tokens: count(meta['prompt_tokens']),
            completion_tokens: count(meta['completion_tokens']),
            cached_tokens: count(meta['cached_tokens']),
          }
        : null,
  };
}
