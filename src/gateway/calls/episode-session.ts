import { setMaxListeners } from 'node:events';
import { EpisodeError, type CallRecord, type Failure } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { ChatError, type ChatAnswer, type ChatCaller, type ChatRequest } from '../chat.ts';
import type { EngineAnswer } from '../engines/engine.ts';
import { noTrace, type EpisodeTrace } from '../recorder/index.ts';
import { LinkedAbort } from '../linked-abort.ts';
import type { SessionOptions, SessionStats } from '../session.ts';
import { AnsweredCalls } from './answered-calls.ts';
import { answerStop } from './answer-stop.ts';
import { Budgets, isMainAgent, type Spent } from './budgets.ts';
import { answerMessage } from './answer-message.ts';
import { CallClock } from './call-clock.ts';
import { CallRoom } from './call-room.ts';
import { CallSampler } from './call-sampler.ts';
import { callFailure, SessionClosed } from './call-failure.ts';
import { CallInProgress } from './call-in-progress.ts';
import { Conversation } from './conversation.ts';
import type { PolicyAccess } from './policy-access.ts';
import { historyName } from './history-name.ts';
import { hasImages, refuseRemoteImages } from './images.ts';
import { RecordedCall, type CallWatcher } from './recorded-call.ts';
import { sessionStats, spentOn } from './session-stats.ts';
import { ToldAnswer } from './told-answer.ts';
import { UnionClock } from './union-clock.ts';
import { wholeIds } from './whole-ids.ts';

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
  readonly #answered = new AnsweredCalls();
  readonly #budgets: Budgets;
  readonly #sampler: CallSampler;
  readonly #calls: RecordedCall[] = [];
  readonly #room = new CallRoom();
  readonly #working = new Set<Promise<unknown>>();
  readonly #clocks = { model: new UnionClock(), hold: new UnionClock() };
  readonly #closing = new AbortController();
  readonly #failed = new AbortController();
  #failure: Failure | null = null;
  #firstCallAt: number | null = null;

  /** `trace`: where what happens is noted for people. Default: nowhere. */
  constructor(options: SessionOptions, policy: PolicyAccess, trace: EpisodeTrace = noTrace) {
    // Each call on its way listens, until it has ended: any number is no leak.
    setMaxListeners(0, this.#closing.signal);
    this.#trace = trace;
    this.#options = options;
    this.#policy = policy;
    this.#budgets = new Budgets(options.limits);
    this.#log = policy.log.child({ episode: options.episode_id, attempt: options.attempt });
    this.#sampler = new CallSampler(options, policy, this.#conversation, this.#calls, this.#log);
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
  countTokens(request: ChatRequest, agentId: string, signal: AbortSignal): Promise<number | null> {
    const limited = AbortSignal.any([signal, this.#closing.signal]);
    return this.#sampler.countTokens(request, agentId, limited);
  }

  /** Aborts what is in flight, refuses what comes, waits for both to be recorded. */
  async close(): Promise<void> {
    this.#closing.abort(new SessionClosed('the session is closed'));
    await Promise.all(this.#working);
    this.#sampler.close();
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
    const since = this.#firstCallAt === null ? 0 : performance.now() - this.#firstCallAt;
    return { ...spentOn(this.#calls), agentMs: since - this.#clocks.hold.ms };
  }

  #fail(code: string, message: string, record: RecordedCall): void {
    if (this.#failure !== null) return;
    this.#failure = { class: 'infra', phase: 'agent', code, message, retryable: true };
    this.#log.warn({ ...record.names, code, replica: this.#sampler.replica }, message);
    this.#failed.abort(new EpisodeError(this.#failure));
  }

  async #chat(request: ChatRequest, caller: ChatCaller): Promise<ChatAnswer> {
    for (;;) {
      const spent = this.#admitted(request, caller);
      const tokens = this.#budgets.outputTokens(request.max_tokens, spent);
      if (this.#room.fits(tokens, this.#options.limits.max_sampled_tokens - spent.sampledTokens)) {
        // Not awaited here: this frame would hold the request as long as the policy takes.
        return this.#run(this.#begin(request, caller), tokens, caller.onDelta);
      }
      using either = new LinkedAbort([caller.signal, this.#closing.signal]);
      await this.#room.change(either.signal);
    }
  }

  /** Notes a request that the gateway itself refused: no call was made for it. */
  refused(request_id: string, message: string): void {
    this.#trace.refused({ request_id, message });
    this.#log.debug({ request_id, why: message }, 'a request was refused');
  }

  /** Notes that a request was given the call of an earlier one, which it repeats. */
  joined(request_id: string, begun_by: string): void {
    this.#trace.joined({ request_id, begun_by });
    this.#log.debug({ request_id, begun_by }, 'a request was given the call that it repeats');
  }

  #admitted(request: ChatRequest, caller: ChatCaller): Spent {
    try {
      return this.#admit(request, caller);
    } catch (error) {
      if (error instanceof ChatError && caller.request_id !== undefined)
        this.refused(caller.request_id, error.message);
      throw error;
    }
  }

  /** Refuses a call that may not be made; tells what was spent before it. */
  #admit(request: ChatRequest, caller: ChatCaller): Spent {
    if (this.#closing.signal.aborted) throw new ChatError('closed', 'this episode has ended');
    if (this.#failure !== null) throw new ChatError('policy_unavailable', this.#failure.message);
    refuseRemoteImages(request.messages);
    const spent = this.#spent();
    this.#budgets.check(spent, isMainAgent(caller));
    caller.signal.throwIfAborted();
    return spent;
  }

  #begin(request: ChatRequest, caller: ChatCaller): CallInProgress {
    this.#firstCallAt ??= performance.now();
    const { turn_seconds, hold_seconds } = this.#options.limits;
    const { messages, fresh, counted } = this.#conversation.admit(historyName(caller), request.messages);
    const clock = new CallClock({ turnMs: turn_seconds * 1000, holdMs: hold_seconds * 1000 }, this.#clocks, [
      caller.signal,
      this.#closing.signal,
    ]);
    const record = new RecordedCall(this.#calls.length, caller, fresh, clock, this.#watcher);
    this.#calls.push(record);
    const tools = (request.tools ?? []).map((tool) => tool.function.name);
    this.#trace.begin({ index: record.index, ...record.caller, tools });
    this.#policy.pauses.add(clock);
    const parent = this.#continues(request)
      ? this.#answered.before(historyName(caller), messages, request.tools)
      : null;
    return new CallInProgress({ ...request, messages }, counted, parent, record, clock.signal);
  }

  /** Whether a request's prompt may be ids. A choice of tools may show in a template, or guide the decoding. */
  #continues({ tool_choice: choice }: ChatRequest): boolean {
    return this.#policy.engine.continuesFromIds && (choice === undefined || choice === 'auto');
  }

  async #run(call: CallInProgress, tokens: number, onDelta: ChatCaller['onDelta']): Promise<ChatAnswer> {
    const { clock } = call.record;
    if (onDelta !== undefined) call.told = new ToldAnswer(onDelta, this.#options.nonce);
    const leave = this.#room.enter(tokens);
    try {
      return this.#answer(call, await this.#sampler.sample(call, tokens));
    } catch (error) {
      throw this.#refusal(error, call.record);
    } finally {
      this.#policy.pauses.remove(clock);
      clock.stop();
      leave();
    }
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
      historyName(record.caller),
      request.messages,
      message,
      sampled.tool_calls.map(({ id }) => id),
      record.promptTokens + record.completionTokens,
    );
    const { finish_reason, stop_sequence } = sampled;
    const ids = this.#continues(request) ? wholeIds(sampled) : null;
    if (ids !== null) {
      this.#answered.add(historyName(record.caller), request.messages, request.tools, message, {
        ...ids,
        ended: stop_sequence === null && finish_reason !== 'length',
        readByEngine: call.promptIds === null,
      });
    }
    this.#budgets.answered(this.#spent(), isMainAgent(record.caller), sampled.finish_reason === 'length');
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
    // What was sampled of it is lost, whatever its end was.
    record.end(record.sampled === null ? failure.fate : 'aborted');
    if (failure.overflow === true) this.#budgets.overflowed(isMainAgent(record.caller));
    if (failure.infra !== undefined) this.#fail(failure.infra.code, failure.infra.message, record);
    return failure.told;
  }
}
