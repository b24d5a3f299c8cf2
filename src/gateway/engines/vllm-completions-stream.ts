import type { CallFormat } from './call-formats/call-format.ts';
import { GeneratedTextStream } from './call-formats/generated-text-stream.ts';
import { ids, object, text, usageOf, type Json } from './completion-parts.ts';
import type { AnswerDelta, EngineAnswer, EngineRequest, Spoken } from './engine.ts';
import type { GrowingAnswer } from './growing-answer.ts';
import { GrowingList } from './growing-list.ts';
import { SampledIds } from './sampled-ids.ts';
import { spokenCompletion, tokenLogprobs } from './vllm-completions.ts';

export interface CompletionStreamOptions {
  readonly request: Pick<EngineRequest, 'tools' | 'parallel_tool_calls' | 'onDelta'>;
  readonly promptIds: Int32Array;
  readonly format: CallFormat;
  /** Whether the prompt ends in opened thinking; undefined where that is not known. */
  readonly thinking: boolean | undefined;
}

/** A streamed answer of vLLM's `/v1/completions`, put together, and read while it comes. Only the first choice counts. */
export class VllmCompletionsStream implements GrowingAnswer {
  readonly #options: CompletionStreamOptions;
  readonly #reading: GeneratedTextStream;
  #spoken: Spoken | null = null;
  #finish: string | null = null;
  #stop: string | null = null;
  #promptIds: Int32Array | null | undefined = undefined;
  readonly #ids = new SampledIds();
  readonly #logprobs = new GrowingList<Float32Array>(new Float32Array(0));
  #hasLogprobs = false;
  #usage: EngineAnswer['usage'] = null;
  #chunks = 0;

  constructor(options: CompletionStreamOptions) {
    this.#options = options;
    const { request, format, thinking } = options;
    this.#reading = new GeneratedTextStream({ tools: request.tools, format, thinking });
  }

  pushText(): boolean {
    return false;
  }

  push(chunk: unknown): boolean {
    const root = object(chunk);
    const choices = root?.['choices'];
    if (root === null || !Array.isArray(choices)) return false;
    if (this.#chunks++ === 0) {
      const prompt_tokens = this.#options.promptIds.length;
      this.#options.request.onDelta?.({ kind: 'begin', prompt_tokens, cached_tokens: 0 });
    }
    this.#usage = usageOf(root['usage']) ?? this.#usage;
    for (const each of choices) {
      const choice = object(each);
      if (choice !== null && (choice['index'] ?? 0) === 0) this.#choice(root, choice);
    }
    return true;
  }

  #choice(root: Json, choice: Json): void {
    const prompt = choice['prompt_token_ids'] ?? root['prompt_token_ids'];
    if (prompt !== undefined && prompt !== null) this.#promptIds = ids(prompt);
    this.#finish = text(choice['finish_reason']) ?? this.#finish;
    this.#stop = text(choice['stop_reason']) ?? this.#stop;
    const listed = choice['token_ids'];
    if (listed !== undefined && listed !== null) this.#ids.append(ids(listed));
    const logprobs = tokenLogprobs(choice['logprobs']);
    if (logprobs !== null) {
      this.#hasLogprobs = true;
      this.#logprobs.append(logprobs);
    }
    this.#tell(this.#reading.push(text(choice['text']) ?? ''));
  }

  get begun(): boolean {
    return this.#chunks > 0;
  }

  get finished(): boolean {
    return this.#finish !== null;
  }

  end(): void {
    this.#tell(this.#close());
  }

  #close(): readonly AnswerDelta[] {
    if (this.#spoken !== null) return [];
    const { deltas, spoken } = this.#reading.end();
    this.#spoken = spoken;
    return deltas;
  }

  #tell(deltas: readonly AnswerDelta[]): void {
    const { onDelta, parallel_tool_calls: parallel } = this.#options.request;
    if (onDelta === undefined) return;
    for (const delta of deltas)
      if (parallel !== false || !('index' in delta) || delta.index === 0) onDelta(delta);
  }

  answer(): EngineAnswer {
    this.#close();
    const { request, promptIds } = this.#options;
    return spokenCompletion(this.#spoken!, request, promptIds, {
      finish: this.#finish,
      stop: this.#stop,
      prompt: this.#promptIds === undefined ? promptIds : this.#promptIds,
      ids: this.#ids.list(),
      logprobs: this.#hasLogprobs ? this.#logprobs.list() : null,
      usage: this.#usage,
    });
  }
}
