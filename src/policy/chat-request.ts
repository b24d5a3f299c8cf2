import { z } from 'zod';
import { badRequest, malformed } from './refusal.ts';

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const content = z.union([z.string(), z.array(part), z.null()]).optional();

const toolCallSchema = z.looseObject({
  id: z.string().default(''),
  type: z.string().default('function'),
  function: z.looseObject({
    name: z.string(),
    arguments: z
      .string()
      .nullish()
      .transform((text) => text ?? ''),
  }),
});

const messageSchema = z.looseObject({
  role: z.string(),
  content,
  reasoning: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(toolCallSchema).nullish(),
  tool_call_id: z.string().nullish(),
});

const toolSchema = z.looseObject({
  type: z.literal('function').default('function'),
  function: z.looseObject({ name: z.string() }),
});
export type RequestTool = z.infer<typeof toolSchema>;

const toolChoiceSchema = z.union([
  z.enum(['auto', 'none', 'required']),
  z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
]);
export type RequestToolChoice = z.infer<typeof toolChoiceSchema>;

const promptFields = {
  model: z.string().optional(),
  messages: z.array(messageSchema).min(1),
  tools: z.array(toolSchema).optional(),
  add_generation_prompt: z.boolean().default(true),
  continue_final_message: z.boolean().default(false),
};

/** Sampling as vLLM and SGLang both name it. */
export const samplingFields = {
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  top_k: z.int().optional(),
  min_p: z.number().optional(),
  presence_penalty: z.number().optional(),
  frequency_penalty: z.number().optional(),
  repetition_penalty: z.number().optional(),
};

const chatRequestSchema = z.looseObject({
  ...promptFields,
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: z.boolean().optional(),
  max_tokens: z.int().optional(),
  max_completion_tokens: z.int().optional(),
  n: z.int().optional(),
  seed: z.int().optional(),
  stop: z.union([z.string(), z.array(z.string())]).optional(),
  include_stop_str_in_output: z.boolean().default(false),
  ...samplingFields,
  logit_bias: z.record(z.string(), z.number()).optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: z.int().optional(),
  return_token_ids: z.boolean().optional(),
  return_tokens_as_token_ids: z.boolean().optional(),
  include_reasoning: z.boolean().default(true),
  stream: z.boolean().optional(),
  stream_options: z
    .looseObject({
      include_usage: z.boolean().optional(),
      continuous_usage_stats: z.boolean().optional(),
    })
    .optional(),
});

export type RequestMessage = z.infer<typeof messageSchema>;
export type ChatRequestBody = z.infer<typeof chatRequestSchema>;

const tokenizeSchema = z.union([
  z.looseObject({ model: z.string().nullish(), prompt: z.string() }),
  z.looseObject(promptFields),
]);
export type TokenizeBody = z.infer<typeof tokenizeSchema>;

const detokenizeSchema = z.looseObject({
  model: z.string().nullish(),
  tokens: z.array(z.int()),
  // SGLang's; vLLM always spells them.
  skip_special_tokens: z.boolean().default(true),
});

/** The engine takes null for absent everywhere at the top of a body. */
function withoutNulls(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

/** Throws `Refusal` for a body that does not fit. */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(withoutNulls(body));
  if (result.success) return result.data;
  const faults = result.error.issues.map((issue) => {
    const place = ['body', ...issue.path].map((step) =>
      typeof step === 'number' ? step : `'${String(step)}'`,
    );
    return `{'type': '${issue.code}', 'loc': (${place.join(', ')}), 'msg': '${issue.message}'}`;
  });
  throw malformed(`[${faults.join(', ')}]`);
}

// What the engine can do and this server cannot: ignoring them would make its logprobs untrue.
const unsupported = [
  'allowed_token_ids',
  'bad_words',
  'best_of',
  'guided_choice',
  'guided_grammar',
  'guided_json',
  'guided_regex',
  'ignore_eos',
  'min_tokens',
  'prompt_logprobs',
  'structured_outputs',
  'use_beam_search',
];

function refuseUnsupported(body: Record<string, unknown>): void {
  for (const name of unsupported) {
    const value = body[name];
    if (value !== undefined && value !== null && value !== false && value !== 0) {
      throw badRequest(`${name} is not supported by the scripted policy.`, name);
    }
  }
  const format = body['response_format'] as { type?: unknown } | null | undefined;
  if (format && format.type !== 'text') {
    throw badRequest('response_format is not supported by the scripted policy.', 'response_format');
  }
}

/** Ranges in vLLM's words. */
function refuseOutOfRange(body: ChatRequestBody): void {
  const { temperature, top_p: topP, top_k: topK, min_p: minP } = body;
  if (temperature !== undefined && temperature < 0) {
    throw badRequest(`temperature must be non-negative, got ${temperature}.`, 'temperature');
  }
  if (topP !== undefined && !(topP > 0 && topP <= 1)) {
    throw badRequest(`top_p must be in (0, 1], got ${topP}.`, 'top_p');
  }
  if (topK !== undefined && topK < -1) {
    throw badRequest(`top_k must be 0 (disable), or at least 1, got ${topK}.`, 'top_k');
  }
  if (minP !== undefined && !(minP >= 0 && minP <= 1)) {
    throw badRequest(`min_p must be in [0, 1], got ${minP}.`, 'min_p');
  }
  for (const name of ['presence_penalty', 'frequency_penalty'] as const) {
    const value = body[name];
    if (value !== undefined && !(value >= -2 && value <= 2)) {
      throw badRequest(`${name} must be in [-2, 2], got ${value}.`, name);
    }
  }
  if (body.repetition_penalty !== undefined && body.repetition_penalty <= 0) {
    throw badRequest(`repetition_penalty must be greater than zero, got ${body.repetition_penalty}.`);
  }
  const maxTokens = body.max_completion_tokens ?? body.max_tokens;
  if (maxTokens !== undefined && maxTokens < 1) {
    throw badRequest(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens');
  }
  if (body.n !== undefined && (body.n < 1 || body.n > 64)) {
    throw badRequest(`n must be at least 1 and at most 64, got ${body.n}.`, 'n');
  }
  if (body.top_logprobs !== undefined && body.top_logprobs > 0 && !body.logprobs) {
    throw badRequest('when using `top_logprobs`, `logprobs` must be set to true.', 'top_logprobs');
  }
  if (body.top_logprobs !== undefined && (body.top_logprobs > 20 || body.top_logprobs < 0)) {
    throw badRequest(
      `Requested sample logprobs of ${body.top_logprobs}, which is greater than max allowed: 20`,
      'logprobs',
    );
  }
  if (body.stream_options && !body.stream) {
    throw badRequest('Stream options can only be defined when `stream=True`.', 'stream_options');
  }
  if (body.tool_choice !== undefined && body.tool_choice !== 'none' && !body.tools?.length) {
    throw badRequest('When using `tool_choice`, `tools` must be set.', 'tool_choice');
  }
  if (body.continue_final_message) {
    throw badRequest('continue_final_message is not supported by the scripted policy.');
  }
}

/** A checked `/v1/chat/completions` body. Unknown fields are kept and ignored, as vLLM does. */
export function parseChatRequest(body: unknown): ChatRequestBody {
  const request = parseBody(chatRequestSchema, body);
  refuseUnsupported(request);
  refuseOutOfRange(request);
  return request;
}

export function parseTokenizeRequest(body: unknown): TokenizeBody {
  return parseBody(tokenizeSchema, body);
}

export function parseDetokenizeRequest(body: unknown): z.infer<typeof detokenizeSchema> {
  return parseBody(detokenizeSchema, body);
}

/** The text of a message; parts that are not text are refused: the policy sees no images. */
export function messageText(message: RequestMessage): string {
  const { content: value } = message;
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  return value
    .map((item) => {
      if (item.type === 'text') return item.text ?? '';
      if (item.type.startsWith('image')) {
        throw badRequest('At most 0 image(s) may be provided in one prompt.');
      }
      throw badRequest(`Unknown part type: ${item.type}`);
    })
    .join('\n');
}

/** Thinking in history: vLLM reads `reasoning`, older versions `reasoning_content`. */
export function messageReasoning(message: RequestMessage): string {
  return message.reasoning ?? message.reasoning_content ?? '';
}
