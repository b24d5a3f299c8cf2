import { EpisodeError, type CallRecord, type Failure } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { ChatError, type ChatAnswer, type ChatCaller, type ChatRequest } from '../chat.ts';
import { EngineError } from '../engines/engine-error.ts';
import type { Engine, EngineAnswer } from '../engines/engine.ts';
import { backoffMs, pause } from '../policy/backoff.ts';
import { callPolicy } from '../policy/call-policy.ts';
import type { PauseWatch } from '../policy/pause-watch.ts';
import type { Affinity, ReplicaSet } from '../policy/replica-set.ts';
import type { Replica } from '../policy/replica.ts';
import type { PolicyState } from '../policy-state.ts';
import { noTrace, type EpisodeTrace } from '../recorder/index.ts';
import type { SessionOptions, SessionStats } from '../session.ts';
import { answerStop } from './answer-stop.ts';
import { Budgets, type Spent } from './budgets.ts';
import { answerMessage } from './answer-message.ts';
import { CallClock, DeadlinePassed } from './call-clock.ts';
import { CallRoom } from './call-room.ts';
import { callFailure, SessionClosed } from './call-failure.ts';
import { CallInProgress } from './call-in-progress.ts';
import { callSeed } from './call-seed.ts';
import { fitIntoContext, promptUpperBound } from './context-window.ts';
import { Conversation } from './conversation.ts';
import { hasImages, refuseRemoteImages } from './images.ts';
import { RecordedCall, type CallWatcher } from './recorded-call.ts';
import { sessionStats } from './session-stats.ts';
import { UnionClock } from './union-clock.ts';

/** What all sessions of a gateway share. */
export interface PolicyAccess {
  readonly engine: Engine;
  readonly replicas: ReplicaSet;
  readonly state: PolicyState;
  readonly pauses: PauseWatch;
  readonly log: Logger;
}

/** The model calls of one attempt: budgets, recording, faults. Knows nothing of HTTP. */
export class EpisodeSession {
  readonly #options: SessionOptions;
  readonly #policy: PolicyAccess;
  readonly #log: Logger;
  readonly #trace: EpisodeTrace;
  readonly #watcher: CallWatcher = {
    ended: (call) => this.#trace.call(this.#record(call), call),
    fated: ({ index, fate }) => this.#trace.fate(index, fate ?? 'undelivered'),
  };
  readonly #conversation = new Conversation();
  readonly #budgets: Budgets;
  readonly #calls: RecordedCall[] = [];
  readonly #room = new CallRoom();
  readonly #working = new Set<Promise<unknown>>();
  readonly #affinity: Affinity = { server: null };
  readonly #clocks = { model: new UnionClock(), hold: new UnionClock() };
  readonly #closing = new AbortController();
  readonly #failed = new AbortController();
  #failure: Failure | null = null;
  #firstCallAt: number | null = null;
  #lastReplica: string | null = null;

  /** `trace`: where what happens is noted for people. Default: nowhere. */
  constructor(options: SessionOptions, policy: PolicyAccess, trace: EpisodeTrace = noTrace) {
    this.#trace = trace;
    this.#options = options;
    this.#policy = policy;
    this.#budgets = new Budgets(options.limits);
    this.#log = policy.log.child({ episode: options.episode_id, attempt: options.attempt });
  }

  get failed(): AbortSignal {
    return this.#failed.signal;
  }

  stats(): SessionStats {
    return sessionStats(this.#calls, this.#clocks, this.#budgets.stop, this.#failure);
  }

  chat(request: ChatRequest, caller: ChatCaller): Promise<ChatAnswer> {
    const work = this.#chat(request, caller);
    const settled = work.then(
      () => undefined,
      () => undefined,
    );
    this.#working.add(settled);
    void settled.then(() => this.#working.delete(settled));
    return work;
  }

  /** Tokens of a request's prompt; null where the engine has no way to say. */
  async countTokens(request: ChatRequest, agentId: string, signal: AbortSignal): Promise<number | null> {
    const { replica } = this.#policy.replicas.choose(this.#affinity);
    const limited = AbortSignal.any([signal, this.#closing.signal, AbortSignal.timeout(10_000)]);
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

  /** Aborts what is in flight, refuses what comes, waits for both to be recorded. */
  async close(): Promise<void> {
    this.#closing.abort(new SessionClosed('the session is closed'));
    await Promise.all(this.#working);
    this.#policy.replicas.release(this.#affinity);
  }

  /** Every call in order of arrival. To be read once the session is closed and nothing can be delivered any more. */
  records(): readonly CallRecord[] {
    this.#trace.end(this.stats());
    return this.#calls.map((call) => this.#record(call));
  }

  #record(call: RecordedCall): CallRecord {
    return call.record(this.#options.sampling, this.#policy.engine.logprobsMode);
  }

  #spent(): Spent {
    const stats = this.stats();
    const since = this.#firstCallAt === null ? 0 : performance.now() - this.#firstCallAt;
    return {
      mainTurns: stats.main_turns,
      sampledTokens: stats.completion_tokens,
      agentMs: since - stats.hold_ms,
    };
  }

  #fail(code: string, message: string): void {
    if (this.#failure !== null) return;
    this.#failure = { class: 'infra', phase: 'agent', code, message, retryable: true };
    this.#log.warn({ code, replica: this.#lastReplica }, message);
    this.#failed.abort(new EpisodeError(this.#failure));
  }

  async #chat(request: ChatRequest, caller: ChatCaller): Promise<ChatAnswer> {
    for (;;) {
      const spent = this.#admit(request, caller);
      const tokens = this.#budgets.outputTokens(request.max_tokens, spent);
      if (this.#room.fits(tokens, this.#options.limits.max_sampled_tokens - spent.sampledTokens)) {
        // Not awaited here: this frame would hold the request as long as the policy takes.
        return this.#run(this.#begin(request, caller), tokens);
      }
      await this.#room.change(AbortSignal.any([caller.signal, this.#closing.signal]));
    }
  }

  /** Refuses a call that may not be made; tells what was spent before it. */
  #admit(request: ChatRequest, caller: ChatCaller): Spent {
    if (this.#closing.signal.aborted) throw new ChatError('closed', 'this episode has ended');
    if (this.#failure !== null) throw new ChatError('policy_unavailable', this.#failure.message);
    refuseRemoteImages(request.messages);
    const spent = this.#spent();
    this.#budgets.check(spent, caller.role === 'main' && caller.foreign !== true);
    caller.signal.throwIfAborted();
    return spent;
  }

  #begin(request: ChatRequest, caller: ChatCaller): CallInProgress {
    this.#firstCallAt ??= performance.now();
    const { turn_seconds, hold_seconds } = this.#options.limits;
    const { messages, fresh, counted } = this.#conversation.admit(caller.agent_id, request.messages);
    const clock = new CallClock({ turnMs: turn_seconds * 1000, holdMs: hold_seconds * 1000 }, this.#clocks);
    const record = new RecordedCall(this.#calls.length, caller, fresh, clock, this.#watcher);
    this.#calls.push(record);
    const tools = (request.tools ?? []).map((tool) => tool.function.name);
    this.#trace.begin({ index: record.index, agent_id: caller.agent_id, role: caller.role, tools });
    this.#policy.pauses.add(clock);
    const signal = AbortSignal.any([caller.signal, this.#closing.signal, clock.signal]);
    return new CallInProgress({ ...request, messages }, counted, record, signal);
  }

  async #run(call: CallInProgress, tokens: number): Promise<ChatAnswer> {
    const { clock } = call.record;
    const leave = this.#room.enter(tokens);
    try {
      return this.#answer(call, await this.#sample(call, tokens));
    } catch (error) {
      throw this.#refusal(error, call.record);
    } finally {
      this.#policy.pauses.remove(clock);
      clock.stop();
      leave();
    }
  }

  /** Samples, again where the engine itself cut the answer short: those tokens are recorded and never delivered. */
  async #sample(call: CallInProgress, tokens: number): Promise<EngineAnswer> {
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
          attempt: (replica, signal) => this.#attempt(call, replica, maxTokens, signal),
          onRetry: (error) => {
            call.record.retried(error);
            this.#log.debug({ call: call.record.index, err: error.message }, 'a model call is tried again');
          },
        });
        if (sampled.finish_reason !== 'abort') return sampled;
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
          { engine: engine.name, tokens: counts },
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
    const { record, request } = call;
    const { sampling, episode_id, attempt } = this.#options;
    if (this.#lastReplica !== null && this.#lastReplica !== replica.name) record.notes.add('replica_moved');
    this.#lastReplica = replica.name;
    record.replica = replica.name;
    record.maxTokens = maxTokens;
    record.versionStart = state.version(replica.name);
    const changes = state.unpausedChanges(replica.name);
    const sampled = await engine.complete(
      replica,
      {
        ...request,
        sampling,
        seed: sampling.seed === null ? null : callSeed(sampling.seed, episode_id, attempt, record.index),
        max_tokens: maxTokens,
        upstreamId: this.#conversation.upstreamId,
        onPartial: (partial) => this.#keepPartial(call, partial),
      },
      signal,
    );
    record.versionEnd = state.version(replica.name);
    if (state.unpausedChanges(replica.name) !== changes) record.notes.add('version_uncertain');
    return sampled;
  }

  /** The call's limit by its prompt's length, which is asked for only where it could matter. */
  async #roomFor(call: CallInProgress, maxTokens: number): Promise<number> {
    const { context_tokens: context } = this.#options.limits;
    if (promptUpperBound(call.request.messages, call.request.tools, call.counted) + maxTokens <= context)
      return maxTokens;
    const prompt = await this.countTokens(call.request, call.record.caller.agent_id, call.signal);
    return prompt === null ? maxTokens : fitIntoContext(maxTokens, prompt, context);
  }

  #setAside(call: CallInProgress, sampled: EngineAnswer): void {
    const aborted = call.record;
    aborted.sampled = sampled;
    aborted.end('aborted');
    call.record = aborted.continuation(this.#calls.length);
    this.#calls.push(call.record);
  }

  /** What had come of an answer that was cut: the end of a call that nobody waits for; others are sampled anew. */
  #keepPartial(call: CallInProgress, partial: EngineAnswer): void {
    call.record.versionEnd = this.#policy.state.version(call.record.replica);
    const left = call.signal.aborted && !(call.signal.reason instanceof DeadlinePassed);
    if (left) call.record.sampled = partial;
    else this.#setAside(call, partial);
  }

  #answer(call: CallInProgress, sampled: EngineAnswer): ChatAnswer {
    const { record, request } = call;
    const message = answerMessage(sampled, this.#options.nonce, record.index);
    record.sampled = sampled;
    record.answer = message;
    if (request.tool_choice !== undefined && !['auto', 'none'].includes(request.tool_choice as string)) {
      record.notes.add('guided_decoding');
    }
    if (hasImages(request.messages)) record.reasons.add('multimodal_inputs_absent');
    record.end('undelivered');
    this.#conversation.record(
      record.caller.agent_id,
      request.messages,
      message,
      sampled.tool_calls.map(({ id }) => id),
      record.promptTokens + record.completionTokens,
    );
    const tokenBudget = this.#options.limits.max_sampled_tokens;
    if (sampled.finish_reason === 'length' && this.stats().completion_tokens >= tokenBudget) {
      this.#budgets.met('max_tokens');
    }
    return {
      call: record.index,
      message,
      stop: answerStop(sampled),
      stop_sequence: sampled.stop_sequence,
      usage: {
        prompt_tokens: record.promptTokens,
        completion_tokens: record.completionTokens,
        cached_tokens: sampled.usage?.cached_tokens ?? 0,
      },
      tokens: sampled,
      delivered: (whole) => record.delivered(whole),
      superseded: () => record.superseded(),
    };
  }

  /** Ends a call that has no answer; returns what the caller is told. */
  #refusal(error: unknown, record: RecordedCall): unknown {
    const failure = callFailure(error, this.#options.limits, record.lastError);
    record.error = failure.told instanceof Error ? failure.told.message : String(failure.told);
    record.end(failure.fate);
    if (failure.overflow === true) this.#budgets.met('context_overflow');
    if (failure.infra !== undefined) this.#fail(failure.infra.code, failure.infra.message);
    return failure.told;
  }
}
