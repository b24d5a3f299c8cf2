import type { ChatMessage, LogprobsMode } from '../../contracts/index.ts';
import type { Replica } from '../policy/replica.ts';
import { EngineError } from './engine-error.ts';
import type { Engine, EngineAnswer, EngineRequest } from './engine.ts';
import { parseLenientJson } from './lenient-json.ts';
import { foldInlineSystem, hasInlineSystem } from './system-fold.ts';
import { readVllmAnswer } from './vllm-answer.ts';
import { vllmBody, vllmMessages } from './vllm-body.ts';
import { vllmFault } from './vllm-faults.ts';
import { probeSystemInPlace } from './vllm-system-probe.ts';

export interface VllmOptions {
  /** The served model's name. */
  readonly model: string;
  /** As a probe found it. Default: unknown. */
  readonly logprobsMode?: LogprobsMode;
  /** Whether the template takes system messages in mid-conversation. Default: probed at the first that needs it. */
  readonly systemInPlace?: boolean;
}

/** vLLM's `/v1/chat/completions`, unary, with token ids and logprobs (facts: token capture 1). */
export class VllmEngine implements Engine {
  readonly name = 'vllm';
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  #systemInPlace: boolean | undefined;

  constructor(options: VllmOptions) {
    this.model = options.model;
    this.logprobsMode = options.logprobsMode ?? 'unknown';
    this.#systemInPlace = options.systemInPlace;
  }

  async complete(replica: Replica, request: EngineRequest, signal: AbortSignal): Promise<EngineAnswer> {
    const messages = await this.#placed(replica, request.messages, signal);
    const body = JSON.stringify(vllmBody(this.model, { ...request, messages }));
    const reply = await replica.request('POST', '/v1/chat/completions', body, signal);
    if (reply.status !== 200) throw vllmFault(reply);
    let answer: EngineAnswer | null = null;
    try {
      answer = readVllmAnswer(parseLenientJson(reply.text));
    } catch (cause) {
      throw new EngineError('busy', 'the policy answered something that is no JSON', {
        cause,
        status: 200,
      });
    }
    if (answer === null) throw vllmFault(reply);
    return answer;
  }

  async countTokens(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<number | null> {
    const messages = await this.#placed(replica, request.messages, signal);
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
    if (reply.status !== 200) return null;
    try {
      const { count } = JSON.parse(reply.text) as { count?: unknown };
      return typeof count === 'number' ? count : null;
    } catch {
      return null;
    }
  }

  async #placed(
    replica: Replica,
    messages: readonly ChatMessage[],
    signal: AbortSignal,
  ): Promise<readonly ChatMessage[]> {
    if (!hasInlineSystem(messages)) return messages;
    this.#systemInPlace ??= await probeSystemInPlace(replica, this.model, signal);
    return this.#systemInPlace ? messages : foldInlineSystem(messages);
  }
}
