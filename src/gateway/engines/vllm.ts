import type { LogprobsMode } from '../../contracts/index.ts';
import type { Replica } from '../policy/replica.ts';
import type { ReplicaReply, WholeReply } from '../policy/whole-reply.ts';
import { EngineError } from './engine-error.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { ids, object, type Json } from './completion-parts.ts';
import { replyFault } from './engine-faults.ts';
import { parseLenientJson } from './lenient-json.ts';
import { vllmCompletionsAnswer, vllmCompletionsBody } from './vllm-completions.ts';
import type { Engine, EngineAnswer, EngineRequest, Spoken } from './engine.ts';
import { OpenedThinking } from './opened-thinking.ts';
import { readVllmStream } from './read-vllm-stream.ts';
import { scanCompletion } from './scan/completion-scan.ts';
import { SystemPlacement } from './system-placement.ts';
import { rereadIds } from './text-of-ids.ts';
import { readVllmAnswer } from './vllm-answer.ts';
import { vllmBody, vllmMessages } from './vllm-body.ts';
import { VllmCompletionsStream } from './vllm-completions-stream.ts';
import { VllmStreamAnswer } from './vllm-stream.ts';

export interface VllmOptions {
  /** The served model's name. */
  readonly model: string;
  /** As a probe found it. Default: unknown. */
  readonly logprobsMode?: LogprobsMode;
  /** Whether the template takes system messages in mid-conversation. Default: probed at the first that needs it. */
  readonly systemInPlace?: boolean;
  /**
   * Has the engine stream: the tokens of a call that is cut are known, and an agent that streams is told the answer while
   * it comes. Default: false.
   */
  readonly streaming?: boolean;
  /** How the model writes tool calls: calls then go on from ids. Default: not known, and every prompt is text. */
  readonly callFormat?: CallFormat | null;
}

const chatPath = '/v1/chat/completions';
const completionsPath = '/v1/completions';

/** vLLM's `/v1/chat/completions`, unary or streamed, with token ids and logprobs (facts: token capture 1). */
export class VllmEngine implements Engine {
  readonly name = 'vllm';
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  readonly #callFormat: CallFormat | null;
  readonly #streaming: boolean;
  readonly #systems: SystemPlacement;
  readonly #thinking: OpenedThinking;

  constructor(options: VllmOptions) {
    this.model = options.model;
    this.logprobsMode = options.logprobsMode ?? 'unknown';
    this.#streaming = options.streaming ?? false;
    this.#callFormat = options.callFormat ?? null;
    this.#thinking = new OpenedThinking(options.model);
    this.#systems = new SystemPlacement(options.model, options.systemInPlace);
  }

  get continuesFromIds(): boolean {
    return this.#callFormat !== null;
  }

  async complete(replica: Replica, request: EngineRequest, signal: AbortSignal): Promise<EngineAnswer> {
    if (request.prompt_token_ids !== undefined && this.#callFormat !== null) {
      return this.#continue(replica, request, request.prompt_token_ids, this.#callFormat, signal);
    }
    const messages = await this.#systems.place(replica, request.messages, signal);
    const body = JSON.stringify(vllmBody(this.model, { ...request, messages }, this.#streaming));
    const { onPartial, onDelta } = request;
    if (!this.#streaming) {
      // No frame waits here that would hold the body. Some routers stream whatever they are asked.
      return replica
        .request('POST', chatPath, body, signal)
        .then((reply) =>
          reply.status === 200 && isEventStream(reply.headers)
            ? readVllmStream([reply.bytes], onPartial, new VllmStreamAnswer())
            : readWhole(reply),
        );
    }
    return replica.stream('POST', chatPath, body, signal, async (reply) =>
      reply.status === 200 && isEventStream(reply.headers)
        ? readVllmStream(reply.body, onPartial, new VllmStreamAnswer(onDelta))
        : readWhole(await reply.whole()),
    );
  }

  async #continue(
    replica: Replica,
    request: EngineRequest,
    promptIds: Int32Array,
    format: CallFormat,
    signal: AbortSignal,
  ): Promise<EngineAnswer> {
    const body = vllmCompletionsBody(this.model, request, promptIds, this.#streaming);
    const whole = (reply: WholeReply): EngineAnswer =>
      wholeAnswer(reply, (bytes) =>
        vllmCompletionsAnswer(
          scanCompletion(bytes) ?? parseLenientJson(bytes.toString()),
          request,
          promptIds,
          format,
        ),
      );
    if (!this.#streaming) return replica.request('POST', completionsPath, body, signal).then(whole);
    const told = request.onDelta !== undefined;
    const thinking = told ? await this.#thinking.in(replica, promptIds, format, signal) : undefined;
    return replica.stream('POST', completionsPath, body, signal, async (reply) =>
      reply.status === 200 && isEventStream(reply.headers)
        ? readVllmStream(
            reply.body,
            request.onPartial,
            new VllmCompletionsStream({ request, promptIds, format, thinking }),
          )
        : whole(await reply.whole()),
    );
  }

  async countTokens(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<number | null> {
    const count = (await this.#tokenize(replica, request, signal))?.['count'];
    return typeof count === 'number' ? count : null;
  }

  reread(
    replica: Replica,
    ids: Int32Array,
    tools: EngineRequest['tools'],
    signal: AbortSignal,
  ): Promise<Spoken | null> {
    return rereadIds(replica, this.model, ids, { tools, format: this.#callFormat }, signal);
  }

  async render(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<Int32Array | null> {
    return ids((await this.#tokenize(replica, request, signal))?.['tokens']);
  }

  /** What `/tokenize` says of a request; null when it refuses it. */
  async #tokenize(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<Json | null> {
    const messages = await this.#systems.place(replica, request.messages, signal);
    const reply = await replica.request(
      'POST',
      '/tokenize',
      JSON.stringify({
        model: this.model,
        messages: vllmMessages(messages, request.upstreamId),
        ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: request.tools }),
        add_generation_prompt: true,
      }),
      signal,
    );
    if (reply.status !== 200) {
      const fault = replyFault(reply);
      if (fault.fault === 'busy') throw fault;
      return null;
    }
    try {
      return object(JSON.parse(reply.text));
    } catch {
      return null;
    }
  }
}

function isEventStream(headers: ReplicaReply['headers']): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.startsWith('text/event-stream');
}

function readWhole(reply: WholeReply): EngineAnswer {
  return wholeAnswer(reply, readVllmAnswer);
}

function wholeAnswer(
  reply: ReplicaReply & { readonly bytes: Buffer },
  read: (bytes: Buffer) => EngineAnswer | null,
): EngineAnswer {
  if (reply.status !== 200) throw replyFault(reply);
  let answer: EngineAnswer | null = null;
  try {
    answer = read(reply.bytes);
  } catch (cause) {
    throw new EngineError('busy', 'the policy answered something that is no JSON', {
      cause,
      status: 200,
    });
  }
  if (answer === null) throw replyFault(reply);
  return answer;
}
