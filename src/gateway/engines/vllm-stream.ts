import type { UntrainableReason } from '../../contracts/index.ts';
import {
  contentOf,
  ids,
  logprobEntries,
  object,
  reasoningOf,
  sameIds,
  text,
  usageOf,
  type Json,
} from './completion-parts.ts';
import { AnswerTelling } from './answer-telling.ts';
import type { AnswerDelta, EngineAnswer } from './engine.ts';
import type { GrowingAnswer } from './growing-answer.ts';
import { GrowingList } from './growing-list.ts';
import { SampledIds } from './sampled-ids.ts';
import { TokenChunkScan, type TokenChunk } from './scan/token-chunk.ts';
import { ToolCallDeltas } from './tool-call-deltas.ts';

/**
 * A streamed chat completion of vLLM, put together (facts: token capture 1.2 and 1.3): the answer is the one that the same
 * tokens give unary. Only the first choice counts.
 */
export class VllmStreamAnswer implements GrowingAnswer {
  #content = '';
  #reasoning = '';
  #refusal = false;
  readonly #tools = new ToolCallDeltas();
  #finish: string | null = null;
  #stop: string | null = null;
  #promptIds: Int32Array | null = null;
  readonly #listed = new SampledIds();
  /** Ids out of `"token_id:N"`. */
  readonly #named = new SampledIds();
  readonly #logprobs = new GrowingList<Float32Array>(new Float32Array(0));
  #hasLogprobs = false;
  #usage: EngineAnswer['usage'] = null;
  #chunks = 0;
  readonly #tokens = new TokenChunkScan();
  readonly #telling: AnswerTelling | null;

  /** `onDelta`: told of the answer's parts as they come. */
  constructor(onDelta?: (delta: AnswerDelta) => void) {
    this.#telling = onDelta === undefined ? null : new AnswerTelling(onDelta, this.#tools);
  }

  push(chunk: unknown): boolean {
    const root = object(chunk);
    const choices = root?.['choices'];
    if (root === null || !Array.isArray(choices)) return false;
    this.#chunks++;
    this.#usage = usageOf(root['usage']) ?? this.#usage;
    this.#promptIds ??= ids(root['prompt_token_ids']) ?? ids(object(choices[0])?.['prompt_token_ids']);
    if (this.#chunks === 1) this.#begin();
    for (const each of choices) {
      const choice = object(each);
      if (choice !== null && (choice['index'] ?? 0) === 0) this.#choice(choice);
    }
    return true;
  }

  pushText(data: string): boolean {
    const token = this.#tokens.scan(data);
    if (token !== null) this.#token(token);
    return token !== null;
  }

  #token({ id, logprob, kind, text: said, index }: TokenChunk): void {
    if (++this.#chunks === 1) this.#begin();
    this.#listed.push(id);
    this.#named.append(null);
    this.#hasLogprobs = true;
    this.#logprobs.push(logprob);
    if (kind === 'content') this.#said('', said);
    else if (kind === 'reasoning') this.#said(said, '');
    else if (kind === 'arguments') this.#called([{ index, function: { arguments: said } }]);
  }

  #begin(): void {
    this.#telling?.begin(
      this.#promptIds?.length ?? this.#usage?.prompt_tokens ?? 0,
      this.#usage?.cached_tokens ?? 0,
    );
  }

  #choice(choice: Json): void {
    this.#promptIds ??= ids(choice['prompt_token_ids']);
    this.#finish = text(choice['finish_reason']) ?? this.#finish;
    this.#stop = text(choice['stop_reason']) ?? this.#stop;
    const listed = choice['token_ids'];
    if (listed !== undefined && listed !== null) this.#listed.append(ids(listed));
    const entries = logprobEntries(choice['logprobs']);
    if (entries !== null) {
      this.#hasLogprobs = true;
      this.#logprobs.append(entries.logprobs);
      if (entries.logprobs.length > 0) this.#named.append(entries.ids);
    }
    const delta = object(choice['delta']);
    if (delta === null) return;
    this.#refusal ||= (text(delta['refusal']) ?? '') !== '';
    // Text of the same delta stands before its calls.
    this.#said(reasoningOf(delta) ?? '', text(delta['content']) ?? '');
    if (delta['tool_calls'] !== undefined) this.#called(delta['tool_calls']);
  }

  #said(reasoning: string, content: string): void {
    this.#reasoning += reasoning;
    this.#content += content;
    this.#telling?.say('reasoning', reasoning);
    this.#telling?.say('text', content);
  }

  #called(deltas: unknown): void {
    this.#tools.push(deltas);
    this.#telling?.call();
  }

  end(): void {
    this.#telling?.end();
  }

  get begun(): boolean {
    return this.#chunks > 0;
  }

  get finished(): boolean {
    return this.#finish !== null;
  }

  answer(): EngineAnswer {
    const listed = this.#listed.list();
    const named = this.#named.list();
    const reasons: UntrainableReason[] = [];
    if (listed !== null && named !== null && !sameIds(listed, named)) reasons.push('length_mismatch');
    const calls = this.#tools.calls();
    return {
      content: contentOf(this.#content, calls),
      reasoning: this.#reasoning || null,
      tool_calls: calls,
      finish_reason: this.#finish,
      stop_sequence: this.#stop,
      refusal: this.#refusal || this.#finish === 'content_filter',
      prompt_token_ids: this.#promptIds,
      token_ids: listed ?? named,
      logprobs: this.#hasLogprobs ? this.#logprobs.list() : null,
      usage: this.#usage,
      reasons,
    };
  }
}
