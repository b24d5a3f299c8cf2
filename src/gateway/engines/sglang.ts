import { randomUUID } from 'node:crypto';
import type { LogprobsMode } from '../../contracts/index.ts';
import type { Replica } from '../policy/replica.ts';
import type { ReplicaReply } from '../policy/whole-reply.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { object, type Json } from './completion-parts.ts';
import { EngineError } from './engine-error.ts';
import { replyFault } from './engine-faults.ts';
import type { Engine, EngineAnswer, EngineRequest, Spoken } from './engine.ts';
import { parseLenientJson } from './lenient-json.ts';
import { sglangChatAnswer, sglangGenerateAnswer } from './sglang-answer.ts';
import { sglangChatBody, sglangGenerateBody, sglangMessages } from './sglang-body.ts';
import { SystemPlacement } from './system-placement.ts';
import { rereadIds } from './text-of-ids.ts';
import type { VllmOptions } from './vllm.ts';

/** How long a cut call waits until the engine was told to stop sampling for it. */
const abortMs = 1_000;

/**
 * SGLang (facts: token capture 2): `/generate` where the prompt's ids are known, else `/v1/chat/completions`, which has
 * ids only unary. It goes on sampling for a client that left, so a call that is cut is aborted by its `rid`.
 */
export class SglangEngine implements Engine {
  readonly name = 'sglang';
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  readonly #callFormat: CallFormat | null;
  readonly #systems: SystemPlacement;

  constructor(options: Omit<VllmOptions, 'streaming'>) {
    this.model = options.model;
    this.logprobsMode = options.logprobsMode ?? 'unknown';
    this.#callFormat = options.callFormat ?? null;
    this.#systems = new SystemPlacement(options.model, options.systemInPlace);
  }

  get continuesFromIds(): boolean {
    return this.#callFormat !== null;
  }

  async complete(replica: Replica, request: EngineRequest, signal: AbortSignal): Promise<EngineAnswer> {
    const rid = `rollpool-${randomUUID()}`;
    const promptIds = request.prompt_token_ids;
    if (promptIds !== undefined && this.#callFormat !== null) {
      const format = this.#callFormat;
      const body = sglangGenerateBody(promptIds, request, rid);
      return this.#ask(replica, '/generate', body, rid, signal, (answer) =>
        sglangGenerateAnswer(answer, request, promptIds, format),
      );
    }
    const messages = await this.#systems.place(replica, request.messages, signal);
    const body = JSON.stringify(sglangChatBody(this.model, { ...request, messages }, rid));
    return this.#ask(replica, '/v1/chat/completions', body, rid, signal, sglangChatAnswer);
  }

  async #ask(
    replica: Replica,
    path: string,
    body: string,
    rid: string,
    signal: AbortSignal,
    read: (answer: unknown) => EngineAnswer | null,
  ): Promise<EngineAnswer> {
    const reply = await replica.request('POST', path, body, signal).catch(async (error: unknown) => {
      if (signal.aborted) await this.#abort(replica, rid);
      throw error;
    });
    if (reply.status !== 200) throw replyFault(reply);
    let answer: EngineAnswer | null = null;
    try {
      answer = read(parseLenientJson(reply.text));
    } catch (cause) {
      throw new EngineError('busy', 'the policy answered something that is no JSON', { cause, status: 200 });
    }
    if (answer === null) throw replyFault(reply);
    return answer;
  }

  /** As good as it can: the call has ended for us whatever the engine says. */
  async #abort(replica: Replica, rid: string): Promise<void> {
    const body = JSON.stringify({ rid });
    await replica
      .request('POST', '/abort_request', body, AbortSignal.timeout(abortMs))
      .catch(() => undefined);
  }

  /** Its `/tokenize` takes no messages: one token is sampled after the prompt, which the call itself then finds in the cache. */
  async countTokens(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<number | null> {
    const reply = await this.#oneToken(replica, request, signal);
    if (reply.status !== 200) return replyFault(reply).tokens?.prompt ?? null;
    const count = object(parsed(reply)?.['usage'])?.['prompt_tokens'];
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
    const reply = await this.#oneToken(replica, request, signal);
    if (reply.status === 200) return sglangChatAnswer(parsed(reply))?.prompt_token_ids ?? null;
    const fault = replyFault(reply);
    if (fault.fault === 'busy') throw fault;
    return null;
  }

  async #oneToken(
    replica: Replica,
    request: Pick<EngineRequest, 'messages' | 'tools' | 'upstreamId'>,
    signal: AbortSignal,
  ): Promise<ReplicaReply> {
    const messages = await this.#systems.place(replica, request.messages, signal);
    const body = JSON.stringify({
      model: this.model,
      messages: sglangMessages(messages, request.upstreamId),
      ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: request.tools }),
      max_tokens: 1,
      stream: false,
      return_token_ids: true,
      return_prompt_token_ids: true,
    });
    return replica.request('POST', '/v1/chat/completions', body, signal);
  }
}

function parsed(reply: ReplicaReply): Json | null {
  try {
    return object(parseLenientJson(reply.text));
  } catch {
    return null;
  }
}
