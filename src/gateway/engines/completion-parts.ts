import type { EngineAnswer } from './engine.ts';

export interface Json {
  readonly [key: string]: unknown;
}

export function object(value: unknown): Json | null {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Json) : null;
}

export function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** What an id can be: anything else would be another id once it stands in an Int32Array. */
export function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0x7fffffff;
}

/** Ids as they came; null when one of them can be none. */
export function ids(value: unknown): Int32Array | null {
  if (value instanceof Int32Array) return value;
  if (!Array.isArray(value)) return null;
  const list = new Int32Array(value.length);
  for (let at = 0; at < value.length; at++) {
    const id: unknown = value[at];
    if (!isId(id)) return null;
    list[at] = id;
  }
  return list;
}

export function sameIds(a: Int32Array, b: Int32Array): boolean {
  return (
    a.length === b.length &&
    Buffer.compare(
      Buffer.from(a.buffer, a.byteOffset, a.byteLength),
      Buffer.from(b.buffer, b.byteOffset, b.byteLength),
    ) === 0
  );
}

/** A logprob as float32; what is no number is NaN, for the certificate to see. */
export function logprobOf(value: unknown): number {
  return typeof value === 'number' ? Math.fround(value) : NaN;
}

/** The id in `"token_id:N"`; null for a token's text. */
export function namedId(token: unknown): number | null {
  if (typeof token !== 'string' || !token.startsWith('token_id:')) return null;
  const match = /^token_id:(\d+)$/.exec(token);
  const id = match === null ? null : Number(match[1]);
  return isId(id) ? id : null;
}

/** What the entries of sampled tokens come to. */
export class LogprobList {
  readonly logprobs: Float32Array;
  /** Ids that the entries themselves name; null where one of them does not. */
  readonly ids: Int32Array | null;

  constructor(logprobs: Float32Array, ids: Int32Array | null) {
    this.logprobs = logprobs;
    this.ids = ids;
  }
}

/** `logprobs.content` of a chat completion: one entry a sampled token. */
export function logprobEntries(value: unknown): LogprobList | null {
  const content = object(value)?.['content'];
  if (content instanceof LogprobList) return content;
  if (!Array.isArray(content)) return null;
  const logprobs = new Float32Array(content.length);
  const named = new Int32Array(content.length);
  let allNamed = content.length > 0;
  for (let at = 0; at < content.length; at++) {
    const entry = object(content[at]);
    logprobs[at] = logprobOf(entry?.['logprob']);
    const id = allNamed ? namedId(entry?.['token']) : null;
    if (id === null) allNamed = false;
    else named[at] = id;
  }
  return new LogprobList(logprobs, allNamed ? named : null);
}

export function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : 0;
}

export function usageOf(value: unknown): EngineAnswer['usage'] {
  const given = object(value);
  if (given === null || typeof given['prompt_tokens'] !== 'number') return null;
  return {
    prompt_tokens: count(given['prompt_tokens']),
    completion_tokens: count(given['completion_tokens']),
    cached_tokens: count(object(given['prompt_tokens_details'])?.['cached_tokens']),
  };
}

/** An argument string as it was sampled. Some engines send an object, some nothing for a tool without parameters. */
export function argumentsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** Calls of a whole message. One without a name is none. */
export function toolCallsOf(value: unknown): EngineAnswer['tool_calls'] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((each) => {
    const call = object(each);
    const called = object(call?.['function']);
    const name = text(called?.['name']);
    if (call === null || called === null || name === null || name === '') return [];
    return [{ id: text(call['id']) ?? '', name, arguments: argumentsOf(called['arguments']) }];
  });
}

/** Thinking under either of its names; null where there is none. */
export function reasoningOf(message: Json): string | null {
  return text(message['reasoning']) || text(message['reasoning_content']) || null;
}

/** No text beside calls is null, no text alone is an empty one: engines say both either way. */
export function contentOf(content: string | null, calls: EngineAnswer['tool_calls']): string | null {
  return content || (calls.length > 0 ? null : '');
}

/** The first choice of a chat completion. */
export interface Choice {
  readonly root: Json;
  readonly choice: Json;
  readonly message: Json;
}

/** Null when it is no chat completion at all. */
export function firstChoice(body: unknown): Choice | null {
  const root = object(body);
  const choices = root?.['choices'];
  const choice = Array.isArray(choices) ? object(choices[0]) : null;
  const message = object(choice?.['message']);
  return root === null || choice === null || message === null ? null : { root, choice, message };
}

/** What was said in it and how it ended; `stopField` is where the engine names the stop string that it met. */
export function spokenIn(
  { root, choice, message }: Choice,
  stopField: string,
): Omit<EngineAnswer, 'prompt_token_ids' | 'token_ids' | 'logprobs' | 'reasons'> {
  const finish = text(choice['finish_reason']);
  const calls = toolCallsOf(message['tool_calls']);
  return {
    content: contentOf(text(message['content']), calls),
    reasoning: reasoningOf(message),
    tool_calls: calls,
    finish_reason: finish,
    stop_sequence: text(choice[stopField]),
    refusal: finish === 'content_filter' || (text(message['refusal']) ?? '') !== '',
    usage: usageOf(root['usage']),
  };
}
