import type { EngineRequest } from './engine.ts';
import { idText } from './id-text.ts';
import { isPrefilled, samplingFields, toolFields, vllmMessages } from './vllm-body.ts';

interface WireMessage {
  readonly role: string;
  readonly reasoning?: string;
  readonly tool_calls?: readonly {
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
}

/**
 * Messages as SGLang takes them: thinking under its older name, and argument strings that are JSON objects without
 * exception (its `serving_chat` refuses the request otherwise, where vLLM takes an empty string and `null`).
 */
export function sglangMessages(
  messages: EngineRequest['messages'],
  upstreamId: EngineRequest['upstreamId'],
): readonly unknown[] {
  return (vllmMessages(messages, upstreamId) as readonly WireMessage[]).map((message) => {
    if (message.role !== 'assistant') return message;
    const { reasoning, tool_calls: calls, ...rest } = message;
    return {
      ...rest,
      ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
      ...(calls === undefined
        ? {}
        : {
            tool_calls: calls.map((call) => {
              const { arguments: given } = call.function;
              return ['', 'null'].includes(given.trim())
                ? { ...call, function: { ...call.function, arguments: '{}' } }
                : call;
            }),
          }),
    };
  });
}

/**
 * The body of SGLang's `/v1/chat/completions` (facts: token capture 2). Ids have two spellings: `return_token_ids` is the
 * newer, `return_prompt_token_ids` with `return_meta_info` the older (0.5.13); what a build does not know it ignores. The
 * logprobs are taken from `meta_info`, beside their ids: those of the chat's own list were seen grouped where a parser
 * is on. `rid` is the name under which the call can be aborted.
 */
export function sglangChatBody(model: string, request: EngineRequest, rid: string): Record<string, unknown> {
  const { stop } = request;
  return {
    model,
    messages: sglangMessages(request.messages, request.upstreamId),
    ...toolFields(request),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    ...(isPrefilled(request.messages) ? { continue_final_message: true } : {}),
    max_tokens: request.max_tokens,
    n: 1,
    stream: false,
    ...samplingFields(request),
    ...(request.seed === null ? {} : { seed: request.seed }),
    logprobs: true,
    top_logprobs: 0,
    return_token_ids: true,
    return_prompt_token_ids: true,
    return_meta_info: true,
    rid,
  };
}

/**
 * The body of SGLang's `/generate` (facts: token capture 2): ids in, ids out. Special tokens stay in the text, because tool
 * calls are read out of it. `logprob_start_len` -1: of the sampled tokens only.
 */
export function sglangGenerateBody(promptIds: Int32Array, request: EngineRequest, rid: string): string {
  const { stop } = request;
  const rest = JSON.stringify({
    sampling_params: {
      max_new_tokens: request.max_tokens,
      ...samplingFields(request),
      ...(stop === undefined || stop.length === 0 ? {} : { stop }),
      ...(request.seed === null ? {} : { sampling_seed: request.seed }),
      n: 1,
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
    },
    return_logprob: true,
    logprob_start_len: -1,
    top_logprobs_num: 0,
    stream: false,
    rid,
  });
  return `{"input_ids":[${idText(promptIds)}],${rest.slice(1)}`;
}
