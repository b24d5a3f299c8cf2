import type { AssistantMessage, ChatMessage, ToolCall } from '../../contracts/index.ts';
import { isShallow } from '../nesting.ts';
import { wellFormedJson } from '../well-formed-json.ts';
import type { EngineRequest } from './engine.ts';

/** Argument strings that were checked once: the same recorded call stands in every later request. */
const checked = new WeakMap<ToolCall, string>();

/**
 * The argument string the engine is given for a historical tool call. vLLM parses it before it renders the template
 * and refuses the whole request when that fails (facts: token capture 1.6), or fails where it is nested deeper than Python's
 * stack. So a string that is no JSON object, or a very deep one, is replaced by `{"raw": <the string>}`, and half a
 * surrogate pair, which the tokenizer refuses, by U+FFFD. That breaks the prefix, which the certificate shows as
 * `forked`; it never makes a wrong token. An empty string is taken as it is.
 */
export function historicalArguments(call: ToolCall): string {
  const known = checked.get(call);
  if (known !== undefined) return known;
  const raw = wellFormedJson(call.function.arguments);
  let usable = raw === '';
  try {
    const value: unknown = JSON.parse(raw);
    usable ||= value === null || (typeof value === 'object' && !Array.isArray(value) && isShallow(value));
  } catch {
    // Not JSON.
  }
  const sent = usable ? raw : JSON.stringify({ raw });
  checked.set(call, sent);
  return sent;
}

function assistant(message: AssistantMessage, upstreamId: (id: string) => string): Record<string, unknown> {
  const { tool_calls: calls, reasoning } = message;
  return {
    role: 'assistant',
    content: message.content,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(calls === undefined || calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            id: upstreamId(call.id),
            type: 'function',
            function: { name: call.function.name, arguments: historicalArguments(call) },
          })),
        }),
  };
}

/** Messages as vLLM takes them: the engine's own tool ids, arguments it can parse. */
export function vllmMessages(
  messages: readonly ChatMessage[],
  upstreamId: (id: string) => string,
): readonly unknown[] {
  return messages.map((message) => {
    if (message.role === 'assistant') return assistant(message, upstreamId);
    if (message.role === 'tool') return { ...message, tool_call_id: upstreamId(message.tool_call_id) };
    return message;
  });
}

/** Whether the agent began the answer itself: the engine is to go on with it, not to open a turn of its own. */
export function isPrefilled(messages: readonly ChatMessage[]): boolean {
  const last = messages.at(-1);
  return last?.role === 'assistant' && last.tool_calls === undefined;
}

/** What of a request's tools an engine is told. Nothing where it has none. */
export function toolFields(request: EngineRequest): Record<string, unknown> {
  const { tools } = request;
  if (tools === undefined || tools.length === 0) return {};
  return {
    tools,
    tool_choice: request.tool_choice ?? 'auto',
    ...(request.parallel_tool_calls === false ? { parallel_tool_calls: false } : {}),
  };
}

/** Every sampling field, explicit: engines fill gaps from the model's generation_config.json (facts: token capture 1.1). */
export function samplingFields({ sampling }: EngineRequest): Record<string, number> {
  return {
    temperature: sampling.temperature,
    top_p: sampling.top_p,
    top_k: sampling.top_k,
    min_p: sampling.min_p,
    presence_penalty: sampling.presence_penalty,
    frequency_penalty: sampling.frequency_penalty,
    repetition_penalty: sampling.repetition_penalty,
  };
}

/**
 * The body of `/v1/chat/completions`, from an allow list: nothing of the agent's request passes that is not named here.
 * `top_logprobs` is 0 and never null: older builds give no logprobs for null (facts: token capture 1.1).
 */
export function vllmBody(model: string, request: EngineRequest, stream: boolean): Record<string, unknown> {
  const { stop } = request;
  return {
    model,
    messages: vllmMessages(request.messages, request.upstreamId),
    ...toolFields(request),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    ...(isPrefilled(request.messages) ? { continue_final_message: true, add_generation_prompt: false } : {}),
    max_tokens: request.max_tokens,
    n: 1,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    ...samplingFields(request),
    ...(request.seed === null ? {} : { seed: request.seed }),
    logprobs: true,
    top_logprobs: 0,
    return_token_ids: true,
  };
}
