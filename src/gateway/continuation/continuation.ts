import { isDeepStrictEqual } from 'node:util';
import type { AssistantMessage, ChatMessage, ToolDefinition } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import type { AnsweredCall } from '../calls/answered-calls.ts';
import type { Engine, EngineRequest } from '../engines/engine.ts';
import type { Replica } from '../policy/replica.ts';
import { behindNth, behindParting, concat, countOf, endsWith, sharedEnding, sharedStart } from './splice.ts';
import { mostTokensOf } from './most-tokens.ts';

/** A request that goes on from an answer. */
export interface ContinuedRequest {
  readonly parent: AnsweredCall;
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolDefinition[] | undefined;
  readonly upstreamId: EngineRequest['upstreamId'];
}

const opening: ChatMessage = { role: 'user', content: 'Hello.' };

/** A short turn of the same kind: what a template puts behind a turn does not hang on what it says. */
function standIn({ tool_calls: calls }: AssistantMessage): AssistantMessage {
  if (calls === undefined) return { role: 'assistant', content: 'Hello.' };
  return {
    role: 'assistant',
    content: null,
    tool_calls: calls.map((call) => ({ ...call, function: { ...call.function, arguments: '{}' } })),
  };
}

/** Follows an answer of that kind: one line for all that templates treat alike. */
function shapeOf(answer: AssistantMessage, tail: readonly ChatMessage[]): string {
  const roles = tail.map(({ role }) => role).filter((role, at, all) => role !== all[at - 1]);
  return [answer.tool_calls === undefined ? 'text' : 'calls', ...roles].join(' ');
}

/** Answers that are read here in another way than the engine reads them, before one is read alike, until all go as text. */
const disagreementsAllowed = 3;

/** Whether two argument strings say the same: some parsers write them anew. */
function sameJson(a: string, b: string): boolean {
  if (a.trim() === b.trim()) return true;
  try {
    return isDeepStrictEqual(JSON.parse(a), JSON.parse(b));
  } catch {
    return false;
  }
}

/** A name or an id in which no template and no tokenizer finds a token of its own. */
const plain = /^[\w.:/-]*$/;

/** Whether the turn's stand-in is made of the same special tokens as any other: what a policy made up as a name could spell one. */
function isPlain({ tool_calls: calls = [] }: AssistantMessage, upstreamId: (id: string) => string): boolean {
  return calls.every(({ id, function: { name } }) => plain.test(name) && plain.test(upstreamId(id)));
}

/** A stand-in's rendering with an answer. */
interface Answered {
  readonly ids: Int32Array;
  /** Ids at its beginning that it has in common with the rendering without one. */
  readonly shared: number;
}

/** Messages that have a place in a prompt of ids: what others wrote, in text. */
function canFollow(message: ChatMessage): boolean {
  return message.role !== 'assistant' && typeof message.content === 'string';
}

/**
 * Prompts as ids: those of an answered call, kept to the last bit, and behind them what its template makes of the messages
 * that came since. A prompt rendered anew from text is another one, because templates rewrite history (arguments
 * parsed and dumped, thinking stripped) and tokenizers do not find the sampled tokens again.
 *
 * What follows is rendered behind a short stand-in for the conversation, which costs the new messages alone. Each kind of
 * continuation is compared with the whole conversation's rendering the first time: where the template makes something
 * else of it there, that kind is sent as text.
 */
export class Continuation {
  readonly #engine: Engine;
  readonly #log: Logger;
  /** Whether a kind of continuation is rendered alike behind the stand-in and in its place. */
  readonly #shapes = new Map<string, boolean>();
  /** The stand-in's rendering without an answer. */
  #asked: Int32Array | null = null;
  /** With an answer, by the number of its calls. */
  readonly #answered = new Map<number, Answered>();
  /** Whether calls are read out of text as the engine reads them; null until an answer with one was compared. */
  #agrees: boolean | null = null;
  #disagreements = 0;
  /** The token that ends turns, once an answer showed it. */
  #end: number | null = null;

  constructor(engine: Engine, log: Logger) {
    this.#engine = engine;
    this.#log = log;
  }

  /**
   * The prompt's ids; null where only text will do. Rejects with EngineError when the engine does not answer, or with the
   * signal's reason.
   */
  async promptOf(
    request: ContinuedRequest,
    replica: Replica,
    signal: AbortSignal,
  ): Promise<Int32Array | null> {
    const { parent, messages } = request;
    const { prompt, completion, ended } = parent.ids;
    const tail = messages.slice(parent.length);
    if (tail.length === 0 || !tail.every(canFollow)) return null;
    if (!isPlain(parent.answer, request.upstreamId)) return null;
    const end = ended ? completion.at(-1) : (this.#end ?? (await this.#closing(request, replica, signal)));
    if (end === undefined || end === null) return null;
    if (!(await this.#readsCalls(request, replica, signal))) return null;
    // What is no end of a turn may stand in the stand-in by chance: what held for one end says nothing of another.
    const shape = `${end} ${shapeOf(parent.answer, tail)}`;
    if (this.#shapes.get(shape) === false) return null;
    const behind = await this.#behind(request, tail, end, replica, signal);
    if (
      behind === null ||
      behind.length === 0 ||
      behind.length > mostTokensOf(tail) ||
      !(await this.#holds(shape, concat([end], behind), request, replica, signal))
    )
      return null;
    if (ended) this.#end = end;
    return concat(prompt, completion, ended ? [] : [end], behind);
  }

  /**
   * The token that closes a turn, by two renderings of two short answers: what they have in common at their ends begins with
   * it. Null where the engine renders none. Where nothing closes a turn it is what begins the next, behind which nothing
   * is then found.
   */
  async #closing(
    { upstreamId }: ContinuedRequest,
    replica: Replica,
    signal: AbortSignal,
  ): Promise<number | null> {
    const renderings: Int32Array[] = [];
    for (const content of ['Hello', 'Goodbye']) {
      const messages: ChatMessage[] = [opening, { role: 'assistant', content }];
      const rendering = await this.#engine.render(replica, { messages, upstreamId }, signal);
      if (rendering === null) return null;
      renderings.push(rendering);
    }
    const [one, other] = renderings as [Int32Array, Int32Array];
    return sharedEnding(one, other)[0] ?? null;
  }

  /**
   * The ids that the template puts behind an answer which ended with `end`; null where they cannot be told.
   *
   * Most templates close an answer with the token that the policy ends it with (`<|im_end|>`): it stands once more in a
   * rendering with an answer than in one without, so the same occurrence closes the answer in the longest one, whatever the
   * template does to the answer itself. Others close nothing, and the policy ends with the token that opens the next turn
   * (GLM's `<|observation|>`): what follows then begins with it, where the renderings part.
   */
  async #behind(
    { parent, upstreamId }: ContinuedRequest,
    tail: readonly ChatMessage[],
    end: number,
    replica: Replica,
    signal: AbortSignal,
  ): Promise<Int32Array | null> {
    const render = (...messages: readonly ChatMessage[]): Promise<Int32Array | null> =>
      this.#engine.render(replica, { messages, upstreamId }, signal);
    const answer = standIn(parent.answer);
    const calls = answer.tool_calls?.length ?? 0;
    const followed = await render(opening, answer, ...tail);
    if (followed === null) return null;
    for (let again = false; ; again = true) {
      const asked = (this.#asked ??= await render(opening));
      const ids = this.#answered.get(calls)?.ids ?? (await render(opening, answer));
      if (asked === null || ids === null) return null;
      const alike = this.#answered.get(calls) ?? { ids, shared: sharedStart(asked, ids) };
      if (sharedStart(asked, followed) < alike.shared) {
        // The policy was started anew with another template, or its replicas have several: nothing that was learnt holds.
        this.#forget();
        if (again) return null;
        continue;
      }
      this.#answered.set(calls, alike);
      const before = countOf(asked, end);
      const closings = countOf(ids, end);
      if (closings === before + 1) return behindNth(followed, end, closings);
      if (closings !== before) return null;
      const answered = await render(opening, answer);
      return answered === null ? null : behindParting(answered, followed, end);
    }
  }

  #forget(): void {
    this.#asked = null;
    this.#answered.clear();
    this.#shapes.clear();
    this.#end = null;
  }

  /**
   * Whether an answer to ids is read as the engine reads its own: the first answers with calls, whose ids are written as
   * text and read here, tell. One that was odd tells of itself alone.
   */
  async #readsCalls(
    { parent: { answer, ids }, tools }: ContinuedRequest,
    replica: Replica,
    signal: AbortSignal,
  ): Promise<boolean> {
    const calls = answer.tool_calls;
    if (this.#agrees !== null || calls === undefined || !ids.readByEngine) return this.#agrees ?? true;
    const sampled = ids.ended ? ids.completion.subarray(0, -1) : ids.completion;
    const reread = await this.#engine.reread(replica, sampled, tools, signal);
    if (reread === null) return true;
    const agrees =
      reread.tool_calls.length === calls.length &&
      reread.tool_calls.every(({ name, arguments: given }, at) => {
        const { function: called } = calls[at]!;
        return called.name === name && sameJson(called.arguments, given);
      });
    if (agrees) this.#agrees = true;
    else if (++this.#disagreements === disagreementsAllowed) {
      this.#agrees = false;
      const engine = calls.map(({ function: called }) => called);
      const here = reread.tool_calls.map(({ name, arguments: given }) => ({ name, arguments: given }));
      this.#log.warn(
        { engine, here },
        'tool calls are read out of text in another way than the policy reads its own: every prompt is sent as text, and sequences fork. Is ROLLPOOL_TOOL_CALL_PARSER the one that the inference server runs with?',
      );
    }
    return agrees;
  }

  async #holds(
    shape: string,
    ending: Int32Array,
    { messages, tools, upstreamId }: ContinuedRequest,
    replica: Replica,
    signal: AbortSignal,
  ): Promise<boolean> {
    const known = this.#shapes.get(shape);
    if (known !== undefined) return known;
    const whole = await this.#engine.render(
      replica,
      { messages, ...(tools === undefined ? {} : { tools }), upstreamId },
      signal,
    );
    // Nothing is learnt from a refusal: it may be about this conversation's history.
    if (whole === null) return false;
    const holds = endsWith(whole, ending);
    this.#shapes.set(shape, holds);
    if (!holds)
      this.#log.warn(
        { shape },
        'a prompt of this kind is sent as text: its rendering depends on the conversation',
      );
    return holds;
  }
}
