import type { LogprobsMode } from '../../contracts/index.ts';
import type { Replica, ReplicaStream } from '../policy/replica.ts';
import { EngineError } from './engine-error.ts';
import { replyFault } from './engine-faults.ts';
import type { Engine, EngineAnswer, EngineRequest } from './engine.ts';
import { readVllmStream } from './read-vllm-stream.ts';
import { SystemPlacement } from './system-placement.ts';
import { readVllmAnswer } from './vllm-answer.ts';
import { vllmBody, vllmMessages } from './vllm-body.ts';

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
}

/** vLLM's `/v1/chat/completions`, unary or streamed, with token ids and logprobs (facts: token capture 1). */
export class VllmEngine implements Engine {
  readonly name = 'vllm';
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  readonly continuesFromIds = false;
  readonly #streaming: boolean;
  readonly #systems: SystemPlacement;

  constructor(options: VllmOptions) {
    this.model = options.model;
    this.logprobsMode = options.logprobsMode ?? 'unknown';
    this.#streaming = options.streaming ?? false;
    this.#systems = new SystemPlacement(options.model, options.systemInPlace);
  }

  async complete(replica: Replica, request: EngineRequest, signal: AbortSignal): Promise<EngineAnswer> {
    const messages = await this.#systems.place(replica, request.messages, signal);
    const body = JSON.stringify(vllmBody(this.model, { ...request, messages }, this.#streaming));
    const { onPartial, onDelta } = request;
    return replica.stream('POST', '/v1/chat/completions', body, signal, (reply) =>
      reply.status === 200 && isEventStream(reply.headers)
        ? readVllmStream(reply.body, onPartial, onDelta)
        : readWhole(reply),
    );
  }

  async countTokens(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<number | null> {
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
    if (reply.status !== 200) return null;
    try {
      const { count } = JSON.parse(reply.text) as { count?: unknown };
      return typeof count === 'number' ? count : null;
    } catch {
      return null;
    }
  }
}

function isEventStream(headers: ReplicaStream['headers']): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.startsWith('text/event-stream');
}

async function readWhole(stream: ReplicaStream): Promise<EngineAnswer> {
  const reply = await stream.whole();
  if (reply.status !== 200) throw replyFault(reply);
  let answer: EngineAnswer | null = null;
  try {
    answer = readVllmAnswer(reply.bytes);
  } catch (cause) {
    throw new EngineError('busy', 'the policy answered something that is no JSON', {
      cause,
      status: 200,
    });
  }
  if (answer === null) throw replyFault(reply);
  return answer;
}
