import type { UntrainableReason } from '../../contracts/index.ts';
import type { EngineAnswer } from './engine.ts';

interface Json {
  readonly [key: string]: unknown;
}

function object(value: unknown): Json | null {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** What an id can be: anything else would be another id once it stands in an Int32Array. */
function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0x7fffffff;
}

/** Ids as they came; null when one of them can be none. */
function ids(value: unknown): Int32Array | null {
  if (!Array.isArray(value)) return null;
  const list = new Int32Array(value.length);
  for (let at = 0; at < value.length; at++) {
    const id: unknown = value[at];
    if (!isId(id)) return null;
    list[at] = id;
  }
  return list;
}

interface Entries {
  readonly logprobs: Float32Array;
  /** Ids out of `"token_id:N"`; null where entries carry text. */
  readonly ids: Int32Array | null;
}

/** `logprobs.content`: one entry a sampled token. What is no number becomes NaN, for the certificate to see. */
function entries(value: unknown): Entries | null {
  const content = object(value)?.['content'];
  if (!Array.isArray(content)) return null;
  const logprobs = new Float32Array(content.length);
  const named = new Int32Array(content.length);
  let allNamed = content.length > 0;
  for (let at = 0; at < content.length; at++) {
    const entry = object(content[at]);
    const logprob = entry?.['logprob'];
    logprobs[at] = typeof logprob === 'number' ? Math.fround(logprob) : NaN;
    const token = entry?.['token'];
    const match = allNamed && typeof token === 'string' ? /^token_id:(\d+)$/.exec(token) : null;
    const id = match === null ? null : Number(match[1]);
    if (isId(id)) named[at] = id;
    else allNamed = false;
  }
  return { logprobs, ids: allNamed ? named : null };
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : 0;
}

function usage(value: unknown): EngineAnswer['usage'] {
  const given = object(value);
  if (given === null || typeof given['prompt_tokens'] !== 'number') return null;
  return {
    prompt_tokens: count(given['prompt_tokens']),
    completion_tokens: count(given['completion_tokens']),
    cached_tokens: count(object(given['prompt_tokens_details'])?.['cached_tokens']),
  };
}

function toolCalls(value: unknown): EngineAnswer['tool_calls'] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((each) => {
    const call = object(each);
    const called = object(call?.['function']);
    const name = text(called?.['name']);
    if (call === null || called === null || name === null || name === '') return [];
    const given = called['arguments'];
    return [
      {
        id: text(call['id']) ?? '',
        name,
        arguments:
          typeof given === 'string'
            ? given
            : given === undefined || given === null
              ? ''
              : JSON.stringify(given),
      },
    ];
  });
}

function sameIds(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && a.every((id, at) => id === b[at]);
}

/**
 * A chat completion of vLLM (facts: token capture 1.1 and 1.2), also where ids stand per choice as SGLang has them.
 * Returns null when it is no completion at all.
 */
export function readVllmAnswer(body: unknown): EngineAnswer | null {
  const root = object(body);
  const choices = root?.['choices'];
  const choice = Array.isArray(choices) ? object(choices[0]) : null;
  const message = object(choice?.['message']);
  if (root === null || choice === null || message === null) return null;

  const listed = ids(choice['token_ids']);
  const entry = entries(choice['logprobs']);
  const reasons: UntrainableReason[] = [];
  if (listed !== null && entry !== null && entry.ids !== null && !sameIds(listed, entry.ids))
    reasons.push('length_mismatch');
  const reasoning = text(message['reasoning']) ?? text(message['reasoning_content']);
  const finish = text(choice['finish_reason']);
  return {
    content: text(message['content']),
    reasoning: reasoning === '' ? null : reasoning,
    tool_calls: toolCalls(message['tool_calls']),
    finish_reason: finish,
    stop_sequence: text(choice['stop_reason']),
    refusal: finish === 'content_filter' || (text(message['refusal']) ?? '') !== '',
    prompt_token_ids: ids(root['prompt_token_ids']) ?? ids(choice['prompt_token_ids']),
    token_ids: listed ?? entry?.ids ?? null,
    logprobs: entry?.logprobs ?? null,
    usage: usage(root['usage']),
    reasons,
  };
}
