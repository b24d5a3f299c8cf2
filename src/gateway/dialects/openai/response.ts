import type { ChatAnswer, ChatStop } from '../../chat.ts';
import type { DialectCall } from '../dialect.ts';
import { randomId } from '../../random-id.ts';
import { sseData } from '../sse.ts';

export const finishReasons: Readonly<Record<ChatStop, string>> = {
  end: 'stop',
  tool_calls: 'tool_calls',
  length: 'length',
  stop_sequence: 'stop',
  refusal: 'content_filter',
};

export function usageOf({ usage }: ChatAnswer): unknown {
  return {
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    total_tokens: usage.prompt_tokens + usage.completion_tokens,
    prompt_tokens_details: { cached_tokens: usage.cached_tokens ?? 0 },
  };
}

/** Only what was asked for (case 59). Tokens go by id: their texts are not kept. */
function logprobsOf(call: DialectCall, { tokens }: ChatAnswer): unknown {
  if (call.wants?.logprobs !== true || tokens.logprobs === null) return null;
  return {
    content: Array.from(tokens.logprobs, (logprob, at) => ({
      token: `token_id:${tokens.token_ids?.[at] ?? -1}`,
      logprob: Number.isFinite(logprob) ? logprob : null,
      bytes: null,
      top_logprobs: [],
    })),
  };
}

function idsOf(call: DialectCall, { tokens }: ChatAnswer): { root: object; choice: object } {
  if (call.wants?.ids !== true) return { root: {}, choice: {} };
  const list = (ids: Int32Array | null): number[] | null => (ids === null ? null : Array.from(ids));
  return {
    root: { prompt_token_ids: list(tokens.prompt_token_ids) },
    choice: { token_ids: list(tokens.token_ids) },
  };
}

export function envelope(call: DialectCall, object: string): Record<string, unknown> {
  return {
    id: `chatcmpl-${randomId()}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model: call.model,
  };
}

export function chatCompletion(call: DialectCall, answer: ChatAnswer): unknown {
  const ids = idsOf(call, answer);
  return {
    ...envelope(call, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: answer.message,
        logprobs: logprobsOf(call, answer),
        finish_reason: finishReasons[answer.stop],
        ...ids.choice,
      },
    ],
    usage: usageOf(answer),
    ...ids.root,
  };
}

/** The answer as chunks: role, reasoning, text, each tool call, the end, usage where asked, `[DONE]`. */
export function streamedCompletion(call: DialectCall, answer: ChatAnswer): string {
  const base = envelope(call, 'chat.completion.chunk');
  const ids = idsOf(call, answer);
  const chunk = (delta: unknown, rest: Record<string, unknown> = {}, root: object = {}): string =>
    sseData({
      ...base,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...rest }],
      ...root,
    });
  const { content, reasoning, tool_calls: calls = [] } = answer.message;
  const events = [chunk({ role: 'assistant', content: '' }, {}, ids.root)];
  if (reasoning !== undefined) events.push(chunk({ reasoning }));
  if (content !== null && content !== '') events.push(chunk({ content }));
  for (const [index, { id, type, function: called }] of calls.entries()) {
    events.push(chunk({ tool_calls: [{ index, id, type, function: called }] }));
  }
  const end = {
    finish_reason: finishReasons[answer.stop],
    logprobs: logprobsOf(call, answer),
    ...ids.choice,
  };
  events.push(chunk({}, end));
  if (call.includeUsage === true) events.push(sseData({ ...base, choices: [], usage: usageOf(answer) }));
  events.push(sseData('[DONE]'));
  return events.join('');
}
