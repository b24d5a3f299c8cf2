import { z } from 'zod';
import { parseBody, parseChatRequest } from './chat-request.ts';
import type { SampledRequest } from './completions.ts';
import { readPrompt } from './prompt-reader.ts';
import { badRequest } from './refusal.ts';
import { encodeWithSpecials, isToken } from './tokenizer.ts';

/** Fields that only this route has; the others are the chat route's. */
const completionSchema = z.looseObject({
  prompt: z.union([z.string(), z.array(z.int()), z.array(z.union([z.string(), z.array(z.int())]))]),
  // The route's own, and small: facts on the wire, 1.5.
  max_tokens: z.int().default(16),
  logprobs: z.int().optional(),
  skip_special_tokens: z.boolean().default(true),
  echo: z.boolean().default(false),
  suffix: z.string().optional(),
});

type Prompt = z.infer<typeof completionSchema>['prompt'];

/** The ids of the one prompt. Ids are taken as they are; `add_special_tokens` has none to add in this vocabulary. */
function idsOf(prompt: Prompt): readonly number[] {
  if (typeof prompt === 'string') return encodeWithSpecials(prompt);
  const [first] = prompt;
  if (typeof first === 'string' || Array.isArray(first)) {
    if (prompt.length > 1) {
      throw badRequest('more than one prompt is not supported by the scripted policy.', 'prompt');
    }
    return idsOf(first);
  }
  const ids = prompt as readonly number[];
  if (ids.length === 0) throw badRequest('The prompt must not be empty.', 'prompt');
  const unknown = ids.find((id) => !isToken(id));
  if (unknown !== undefined) throw badRequest(`Token id ${unknown} is out of vocabulary`, 'prompt');
  return ids;
}

/** A checked `/v1/completions` body, as the conversation that its prompt spells. Throws `Refusal`. */
export function parseCompletionRequest(body: unknown): SampledRequest {
  const { prompt, logprobs, skip_special_tokens, echo, suffix, ...rest } = parseBody(completionSchema, body);
  if (echo) throw badRequest('echo is not supported by the scripted policy.', 'echo');
  if (suffix !== undefined) throw badRequest('suffix is not currently supported', 'suffix');
  const ids = idsOf(prompt);
  const { messages, hasTools } = readPrompt(ids, 'prompt');
  const request = parseChatRequest({
    ...rest,
    messages,
    ...(logprobs === undefined ? {} : { logprobs: true, top_logprobs: logprobs }),
  });
  return {
    // One more than was asked for: the sampled token is listed whatever its rank.
    request: logprobs === undefined ? request : { ...request, top_logprobs: logprobs + 1 },
    raw: { promptIds: Int32Array.from(ids), skipSpecials: skip_special_tokens, hasTools },
  };
}
