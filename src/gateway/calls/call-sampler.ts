import { EngineError } from '../engines/engine-error.ts';
import type { EngineAnswer } from '../engines/engine.ts';
import type { Logger } from '../../observe/index.ts';
import type { ChatRequest } from '../chat.ts';
import { backoffMs, pause } from '../policy/backoff.ts';
import { callPolicy } from '../policy/call-policy.ts';
import type { Affinity } from '../policy/replica-set.ts';
import type { Replica } from '../policy/replica.ts';
import type { SessionOptions } from '../session.ts';
import { ActiveLimit, PartTooSlow } from './active-limit.ts';
import { DeadlinePassed } from './call-clock.ts';
import type { CallInProgress } from './call-in-progress.ts';
import { callSeed } from './call-seed.ts';
import { fitIntoContext, promptUpperBound } from './context-window.ts';
import type { Conversation } from './conversation.ts';
import { historyName } from './history-name.ts';
import type { PolicyAccess } from './policy-access.ts';
import type { RecordedCall } from './recorded-call.ts';
import { AnswerCut } from './told-answer.ts';

/** Times that the rendering of a prompt's new part is tried. */
const rendersTried = 3;

/** How long its rendering may take, and at most this part of a turn's time: then it is sent as text. */
const renderMs = 30_000;
const renderPart = 1 / 5;

/** For so long no replica is asked that did not render in time. */
const renderPauseMs = 60_000;

/** Whether the policy did not take a request that another form of it may pass. */
function isRefusal(error: unknown): boolean {
  return error instanceof EngineError && (error.fault === 'rejected' || error.fault === 'misconfigured');
}

/** Has the calls of one attempt sampled: which replica, with what limit, again after what failures. */
export class CallSampler {
  readonly #session: SessionOptions;
  readonly #policy: PolicyAccess;
  readonly #conversation: Conversation;
  readonly #calls: RecordedCall[];
  readonly #log: Logger;
  readonly #affinity: Affinity = { server: null };
  #lastReplica: string | null = null;

  /** `calls`: the attempt's records; one is added where an answer is set aside and sampled anew. */
  constructor(
    session: SessionOptions,
    policy: PolicyAccess,
    conversation: Conversation,
    calls: RecordedCall[],
    log: Logger,
  ) {
    this.#session = session;
    this.#policy = policy;
    this.#conversation = conversation;
    this.#calls = calls;
    this.#log = log;
  }

  /** The replica that was asked last; null before the first call. */
  get replica(): string | null {
    return this.#lastReplica;
  }

  /** The attempt stays on no replica any more. */
  close(): void {
    this.#policy.replicas.release(this.#affinity);
  }

  /** Tokens of a request's prompt; null where the engine has no way to say. */
  async countTokens(request: ChatRequest, agentId: string, signal: AbortSignal): Promise<number | null> {
    const { replica } = this.#policy.replicas.choose(this.#affinity);
    const limited = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
    try {
      return await this.#policy.engine.countTokens(
        replica,
        {
          messages: this.#conversation.restore(agentId, request.messages),
          ...(request.tools === undefined ? {} : { tools: request.tools }),
          upstreamId: this.#conversation.upstreamId,
        },
        limited,
      );
    } catch (error) {
      signal.throwIfAborted();
      this.#log.debug({ err: error }, 'the policy did not count a prompt');
      return null;
    }
  }

  /** Samples, again where the engine itself cut the answer short: those tokens are recorded and never delivered. */
  async sample(call: CallInProgress, tokens: number): Promise<EngineAnswer> {
    let maxTokens = await this.#roomFor(call, tokens);
    const { engine, replicas, state, pauses } = this.#policy;
    for (;;) {
      try {
        const sampled = await callPolicy({
          replicas,
          affinity: this.#affinity,
          state,
          pauses,
          clock: call.record.clock,
          signal: call.signal,
          attempt: async (replica, signal) => {
            try {
              return await this.#attempt(call, replica, maxTokens, signal);
            } catch (error) {
              throw call.told?.begun === true ? new AnswerCut(error) : error;
            }
          },
          onRetry: (error) => {
            call.record.retried(error);
            this.#log.debug({ ...call.record.names, err: error.message }, 'a model call is tried again');
          },
        });
        if (sampled.finish_reason !== 'abort') return sampled;
        if (call.told?.begun === true) {
          call.record.sampled = sampled;
          throw new AnswerCut();
        }
        this.#setAside(call, sampled);
        await pause(backoffMs(0), call.signal);
      } catch (error) {
        // The engine's context is smaller than ours: what is left of it is the call's limit.
        const counts = error instanceof EngineError && error.fault === 'overflow' ? error.tokens : undefined;
        if (counts === undefined) throw error;
        const fitted = fitIntoContext(maxTokens, counts.prompt, counts.limit);
        if (fitted >= maxTokens) throw error;
        maxTokens = fitted;
        this.#log.debug(
          { ...call.record.names, engine: engine.name, tokens: counts },
          'a call is fitted into the engine’s context',
        );
      }
    }
  }

  async #attempt(
    call: CallInProgress,
    replica: Replica,
    maxTokens: number,
    signal: AbortSignal,
  ): Promise<EngineAnswer> {
    const { engine, state } = this.#policy;
    const { record, request, told } = call;
    const { sampling, episode_id, attempt } = this.#session;
    if (this.#lastReplica !== null && this.#lastReplica !== replica.name) record.notes.add('replica_moved');
    this.#lastReplica = replica.name;
    record.replica = replica.name;
    const promptIds = await this.#promptIds(call, replica, signal);
    const limit =
      promptIds === null
        ? maxTokens
        : fitIntoContext(maxTokens, promptIds.length, this.#session.limits.context_tokens);
    record.maxTokens = limit;
    record.promptAs = promptIds === null ? 'text' : 'ids';
    record.versionStart = state.version(replica.name);
    const changes = state.unpausedChanges(replica.name);
    const complete = (prompt: Int32Array | null): Promise<EngineAnswer> =>
      engine.complete(
        replica,
        {
          ...request,
          sampling,
          seed: sampling.seed === null ? null : callSeed(sampling.seed, episode_id, attempt, record.index),
          max_tokens: prompt === null ? maxTokens : limit,
          ...(prompt === null ? {} : { prompt_token_ids: prompt }),
          upstreamId: this.#conversation.upstreamId,
          onPartial: (partial) => this.#keepPartial(call, partial),
          ...(told === null ? {} : { onDelta: (delta) => told.take(delta, record.index) }),
        },
        signal,
      );
    const sampled = await complete(promptIds).catch((error: unknown) => {
      if (promptIds === null || told?.begun === true || !isRefusal(error)) throw error;
      // It may have been started anew without that route, or with another vocabulary: the same as text costs a fork alone.
      this.#log.warn({ ...record.names, err: error }, 'a prompt is sent as text: the policy refused its ids');
      call.promptIds = null;
      record.maxTokens = maxTokens;
      return complete(null);
    });
    record.versionEnd = state.version(replica.name);
    if (state.unpausedChanges(replica.name) !== changes) record.notes.add('version_uncertain');
    return sampled;
  }

  /** The prompt as ids, where it goes on from an answer; null where it is to be text. */
  async #promptIds(call: CallInProgress, replica: Replica, signal: AbortSignal): Promise<Int32Array | null> {
    if (call.promptIds !== undefined) return call.promptIds;
    const { parent, request } = call;
    if (parent === null || performance.now() < (this.#policy.slowRenders.get(replica) ?? 0))
      return (call.promptIds = null);
    const { clock } = call.record;
    const limitMs = Math.min(renderMs, this.#session.limits.turn_seconds * 1000 * renderPart);
    using limited = new ActiveLimit(clock, limitMs, signal);
    try {
      const { messages, tools } = request;
      const { upstreamId } = this.#conversation;
      call.promptIds = await this.#policy.continuation.promptOf(
        { parent, messages, tools, upstreamId },
        replica,
        limited.signal,
      );
    } catch (error) {
      signal.throwIfAborted();
      // An engine that is busy is asked again, as for anything; one that never renders still answers.
      const slow = error instanceof PartTooSlow;
      const busy = error instanceof EngineError && error.fault === 'busy';
      if (!slow && (!busy || ++call.renderFailures < rendersTried)) throw error;
      if (slow) this.#policy.slowRenders.set(replica, performance.now() + renderPauseMs);
      this.#log.debug(
        { ...call.record.names, err: error },
        'a prompt is sent as text: the policy did not render it',
      );
      call.promptIds = null;
    }
    return call.promptIds;
  }

  /** The call's limit by its prompt's length, which is asked for only where it could matter. */
  async #roomFor(call: CallInProgress, maxTokens: number): Promise<number> {
    const { context_tokens: context } = this.#session.limits;
    if (promptUpperBound(call.request.messages, call.request.tools, call.counted) + maxTokens <= context)
      return maxTokens;
    const prompt = await this.countTokens(call.request, historyName(call.record.caller), call.signal);
    return prompt === null ? maxTokens : fitIntoContext(maxTokens, prompt, context);
  }

  #setAside(call: CallInProgress, sampled: EngineAnswer): void {
    const aborted = call.record;
    aborted.sampled = sampled;
    aborted.end('aborted');
    call.record = aborted.continuation(this.#calls.length);
    this.#calls.push(call.record);
  }

  /** What had come of an answer that was cut: the end of a call that nobody waits for, or whose agent was told of it; others are sampled anew. */
  #keepPartial(call: CallInProgress, partial: EngineAnswer): void {
    call.record.versionEnd = this.#policy.state.version(call.record.replica);
    const left = call.signal.aborted && !(call.signal.reason instanceof DeadlinePassed);
    if (left || call.told?.begun === true) call.record.sampled = partial;
    else this.#setAside(call, partial);
  }
}
