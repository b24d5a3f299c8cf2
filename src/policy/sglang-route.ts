import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { toJson } from './answer-json.ts';
import { abortAnswer, type Answer } from './answer.ts';
import {
  parseChatRequest,
  parseDetokenizeRequest,
  samplingFields,
  type ChatRequestBody,
} from './chat-request.ts';
import { failFirst, sendWhole, type ChatRouteOptions } from './chat-route.ts';
import type { SampledRequest } from './completions.ts';
import { faultOf, type Fault } from './faults.ts';
import { departure, pause, readJson, sendJson } from './http-exchange.ts';
import { readPrompt } from './prompt-reader.ts';
import { badRequest, malformed, unknownModel } from './refusal.ts';
import { sglangChatBody, sglangGenerateBody, type Weights } from './sglang-json.ts';
import { decodeTokens, encodeWithSpecials } from './tokenizer.ts';

const chatSchema = z.looseObject({
  rid: z.string().nullish(),
  stream: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  return_prompt_token_ids: z.boolean().nullish(),
  return_meta_info: z.boolean().nullish(),
});

const generateSchema = z.looseObject({
  rid: z.string().nullish(),
  text: z.string().nullish(),
  input_ids: z.array(z.int().nonnegative()).min(1).nullish(),
  stream: z.boolean().nullish(),
  return_logprob: z.boolean().nullish(),
  sampling_params: z
    .looseObject({
      max_new_tokens: z.int().default(128),
      ...samplingFields,
      stop: z.union([z.string(), z.array(z.string())]).optional(),
      sampling_seed: z.int().optional(),
      skip_special_tokens: z.boolean().default(true),
    })
    .default({ max_new_tokens: 128, skip_special_tokens: true }),
});

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw malformed(`${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
}

/** As `serving_chat` has it: the template is given objects, so nothing else is taken. */
function refuseOddArguments(request: ChatRequestBody): void {
  for (const call of request.messages.flatMap((message) => message.tool_calls ?? [])) {
    let value: unknown;
    try {
      value = JSON.parse(call.function.arguments);
    } catch {
      throw badRequest('Assistant tool call function.arguments must be valid JSON.');
    }
    if (value === null || typeof value !== 'object' || Array.isArray(value)) {
      throw badRequest('Assistant tool call function.arguments must be a JSON object.');
    }
  }
}

/** The routes that SGLang has and vLLM has not, and its chat. Refusals are thrown and answered by the server. */
export class SglangRoutes {
  readonly #options: ChatRouteOptions;
  /** Calls on their way, by the id they can be aborted with. */
  readonly #running = new Map<string, AbortController>();
  readonly #aborts: string[] = [];
  #version: string;

  /** `version`: of the weights, until a fault changes it. */
  constructor(options: ChatRouteOptions, version = 'default') {
    this.#options = options;
    this.#version = version;
  }

  /** The ids that `/abort_request` was given. */
  get aborts(): readonly string[] {
    return this.#aborts;
  }

  /** True: it was one of these routes, and is answered. */
  async serve(route: string, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    switch (route) {
      case 'POST /v1/chat/completions':
        await this.#chat(await readJson(request), response);
        return true;
      case 'POST /generate':
        await this.#generate(await readJson(request), response);
        return true;
      case 'POST /abort_request':
        this.#abort(await readJson(request));
        sendJson(response, 200, '{}');
        return true;
      case 'POST /detokenize':
        sendJson(response, 200, JSON.stringify(this.#detokenize(await readJson(request))));
        return true;
      case 'GET /get_model_info':
        sendJson(response, 200, JSON.stringify({ model_path: this.#options.model, is_generation: true }));
        return true;
      case 'GET /get_server_info':
        sendJson(response, 200, JSON.stringify({ tool_call_parser: 'scripted', version: '0.5.13' }));
        return true;
      case 'GET /version':
      case 'POST /v1/completions':
        sendJson(response, 404, JSON.stringify({ detail: 'Not Found' }));
        return true;
      default:
        return false;
    }
  }

  #detokenize(body: unknown): unknown {
    const { model, tokens, skip_special_tokens: skipSpecials } = parseDetokenizeRequest(body);
    if (model && model !== this.#options.model) throw unknownModel(model);
    return { text: decodeTokens(tokens, skipSpecials) };
  }

  #abort(body: unknown): void {
    const { rid } = parse(z.looseObject({ rid: z.string() }), body);
    this.#aborts.push(rid);
    this.#running.get(rid)?.abort();
  }

  async #chat(body: unknown, response: ServerResponse): Promise<void> {
    const asked = parse(chatSchema, body);
    const wishes = {
      tokenIds: asked.return_token_ids === true,
      promptIds: asked.return_token_ids === true || asked.return_prompt_token_ids === true,
      metaInfo: asked.return_meta_info === true,
    };
    if (asked.stream === true) {
      throw badRequest(
        'This server streams no token ids, and stands in for nothing else of SGLang: set stream=false.',
      );
    }
    const rid = asked.rid ?? randomUUID();
    await this.#answer(
      rid,
      response,
      () => {
        const chat = parseChatRequest(body);
        if (chat.model && chat.model !== this.#options.model) throw unknownModel(chat.model);
        refuseOddArguments(chat);
        return { request: { ...chat, return_token_ids: true } };
      },
      (answer, chat, weights) => sglangChatBody(answer, chat, wishes, rid, weights),
    );
  }

  async #generate(body: unknown, response: ServerResponse): Promise<void> {
    const asked = parse(generateSchema, body);
    if (asked.stream === true) throw badRequest('stream is not supported by the scripted policy.');
    const rid = asked.rid ?? randomUUID();
    await this.#answer(
      rid,
      response,
      () => {
        const ids = asked.input_ids ?? encodeWithSpecials(asked.text ?? '');
        const { max_new_tokens: max, sampling_seed: seed, ...params } = asked.sampling_params;
        const { skip_special_tokens: skipSpecials, ...sampling } = params;
        const { messages, hasTools } = readPrompt(ids, 'input_ids');
        const chat = parseChatRequest({
          ...sampling,
          messages,
          max_tokens: max,
          seed,
          logprobs: asked.return_logprob === true,
          return_token_ids: true,
        });
        return { request: chat, raw: { promptIds: Int32Array.from(ids), skipSpecials, hasTools } };
      },
      (answer, _chat, weights) => sglangGenerateBody(answer, rid, weights),
    );
  }

  #weightsOf({ usage }: Answer, change: Extract<Fault, { kind: 'weights' }> | undefined): Weights {
    if (change === undefined) return { weight_version: this.#version };
    const { completion_tokens: end } = usage;
    const at = Math.min(change.position ?? Math.floor(end / 2), end);
    const spans = [
      { version: this.#version, start: 0, end: at },
      { version: change.version, start: at, end },
    ].filter((span) => span.end > span.start);
    this.#version = change.version;
    return { weight_version: change.version, weight_versions: spans };
  }

  async #answer(
    rid: string,
    response: ServerResponse,
    read: () => SampledRequest,
    write: (answer: Answer, chat: ChatRequestBody, weights: Weights) => unknown,
  ): Promise<void> {
    const { completions, faults: queue, latencyMs, tokenMs } = this.#options;
    const left = departure(response);
    const faults = queue.take();
    await failFirst(response, faults, left);
    if (left.aborted) return;
    const call = read();
    if (!(await pause(latencyMs + (faultOf(faults, 'slow')?.ms ?? 0), left))) return;
    const running = new AbortController();
    this.#running.set(rid, running);
    try {
      const answer = completions.sample(call, faults, rid);
      const cut = AbortSignal.any([left, running.signal]);
      const weights = this.#weightsOf(answer, faultOf(faults, 'weights'));
      const whole = await pause(tokenMs * answer.usage.completion_tokens, cut);
      if (left.aborted) return;
      await sendWhole(
        response,
        toJson(write(whole ? answer : abortAnswer(answer), call.request, weights)),
        faults,
        left,
      );
    } finally {
      this.#running.delete(rid);
    }
  }
}
