import type { LogprobsMode } from '../contracts/index.ts';
import { answerChoice, newAnswer, type Answer } from './answer.ts';
import { finishReason } from './answer-json.ts';
import type { ChatRequestBody, RequestToolChoice } from './chat-request.ts';
import {
  renderPrompt,
  turnKey,
  type CallFormat,
  type TemplateName,
  type TurnContent,
} from './chat-template.ts';
import type { WeightedWriting } from './distribution.ts';
import type { Fault } from './faults.ts';
import { CompletionParser } from './completion-parser.ts';
import { generate } from './generation.ts';
import { Random } from './hashing.ts';
import { prefixOf } from './prompt-reader.ts';
import { RawText } from './raw-text.ts';
import {
  badRequest,
  maxTokensTooLarge,
  promptTooLong,
  sglangPromptTooLong,
  sglangTotalTooLong,
} from './refusal.ts';
import type { SampleLog } from './sample-log.ts';
import type { SamplingSettings } from './sampler.ts';
import type { Script } from './script-schema.ts';
import { calledTools, fillTurn, findWorkdir, turnWritings } from './script-turn.ts';
import { findScript, walkScript, type ScriptState, type TurnOption } from './script-walk.ts';
import type { TurnMemory } from './turn-memory.ts';

export interface CompletionSettings {
  /** Whose words refusals have. */
  readonly engine: 'vllm' | 'sglang';
  readonly model: string;
  readonly scripts: readonly Script[];
  readonly template: TemplateName;
  readonly callFormat: CallFormat;
  readonly maxModelLen: number;
  readonly logprobsMode: Extract<LogprobsMode, 'processed' | 'raw'>;
  readonly splitRate: number;
  readonly seed: number;
  readonly memory: TurnMemory;
  readonly log: SampleLog;
}

/** What a route that is given a prompt of ids, and answers mere text, knows beside the request. */
export interface RawCall {
  readonly promptIds: Int32Array;
  /** Whether special tokens are left out of the text. */
  readonly skipSpecials: boolean;
  /** Whether the prompt lists tools: a client then reads calls out of the text. */
  readonly hasTools: boolean;
}

export interface SampledRequest {
  readonly request: ChatRequestBody;
  /** Given: the request's messages are what the ids say, and nothing is parsed. */
  readonly raw?: RawCall;
}

const idle: readonly TurnOption[] = (
  [
    [0.9, 'I have nothing to do.'],
    [0.1, 'There is nothing for me to do.'],
  ] as const
).map(([weight, text]) => ({ weight, path: '', turn: fillTurn({ text }, { workdir: '', turn: 0 }) }));

const ended: readonly TurnOption[] = [
  { weight: 1, path: '', turn: fillTurn({ text: ['Done.', 'I am done.'] }, { workdir: '', turn: 0 }) },
];

/** What the policy may say next in this conversation. */
function stateOf(request: ChatRequestBody, scripts: readonly Script[]): ScriptState & { matched: boolean } {
  const found = findScript(scripts, request.messages);
  if (found === null) return { matched: false, script: '', turn: 0, options: idle };
  const workdir = findWorkdir(request.messages);
  const state = walkScript(found.script, found.at, request.messages, { workdir, turn: 0 });
  return { matched: true, ...state, options: state.options.length > 0 ? state.options : ended };
}

/** Options a tool choice leaves: as with guided decoding, what does not fit has probability 0. */
function allowed(
  options: readonly TurnOption[],
  choice: RequestToolChoice | null | undefined,
): readonly TurnOption[] {
  if (choice === null || choice === undefined || choice === 'auto' || choice === 'none') return options;
  const name = choice === 'required' ? null : choice.function.name;
  const left = options.filter(({ turn }) => {
    const called = calledTools(turn);
    return called.length > 0 && (name === null || called.every((tool) => tool === name));
  });
  if (left.length === 0) {
    throw badRequest('tool_choice: the script of the scripted policy has no such call here.', 'tool_choice');
  }
  return left;
}

function writingsOf(options: readonly TurnOption[], format: CallFormat): WeightedWriting[] {
  return options.flatMap(({ weight, turn }, option) => {
    const writings = turnWritings(turn, format);
    return writings.map((parts) => ({ parts, option, weight: weight / writings.length }));
  });
}

function samplingOf(request: ChatRequestBody): SamplingSettings {
  return {
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    topK: request.top_k ?? -1,
    minP: request.min_p ?? 0,
    presencePenalty: request.presence_penalty ?? 0,
    frequencyPenalty: request.frequency_penalty ?? 0,
    repetitionPenalty: request.repetition_penalty ?? 1,
    logitBias: new Map(Object.entries(request.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias])),
  };
}

function maxTokensOf(
  request: ChatRequestBody,
  prompt: number,
  limit: number,
  engine: CompletionSettings['engine'],
): number {
  const sglang = engine === 'sglang';
  if (prompt >= limit) throw (sglang ? sglangPromptTooLong : promptTooLong)(prompt, limit);
  const asked = request.max_completion_tokens ?? request.max_tokens;
  if (asked === null || asked === undefined) return limit - prompt;
  if (asked + prompt > limit) throw (sglang ? sglangTotalTooLong : maxTokensTooLarge)(asked, prompt, limit);
  return asked;
}

/** What a client that reads the text of these ids will send back as its message. */
function readBack(ids: readonly number[], hasTools: boolean): TurnContent {
  const parser = new CompletionParser(hasTools);
  for (const id of ids) parser.push(id);
  return parser.written();
}

/** Samples the answers to requests of every route. */
export class Completions {
  readonly #settings: CompletionSettings;
  /** How often each turn of each script was sampled without a seed of the client's. */
  readonly #drawn = new Map<string, number>();

  constructor(settings: CompletionSettings) {
    this.#settings = settings;
  }

  /**
   * Without a seed the k-th sample of a turn has its own numbers, whatever order other turns came in: with one server
   * seed a group meets the same branches however its episodes interleave.
   */
  #random(request: ChatRequestBody, state: ScriptState, choice: number): Random {
    if (request.seed !== null && request.seed !== undefined)
      return new Random(`seed ${request.seed} ${choice}`);
    const place = `${state.turn} ${state.script}`;
    const count = this.#drawn.get(place) ?? 0;
    this.#drawn.set(place, count + 1);
    return new Random(`server ${this.#settings.seed} ${place} ${count}`);
  }

  /** Throws `Refusal`. */
  sample(
    { request, raw: rawCall }: SampledRequest,
    faults: readonly Fault[],
    requestId: string | undefined,
  ): Answer {
    const { template, callFormat, memory, maxModelLen, splitRate, logprobsMode, model, engine } =
      this.#settings;
    const tools = request.tool_choice === 'none' ? [] : (request.tools ?? []);
    const prompt =
      rawCall === undefined
        ? renderPrompt(request.messages, request.tools ?? [], { template, callFormat, memory })
        : { ids: rawCall.promptIds, prefix: prefixOf(rawCall.promptIds) };
    const maxTokens = maxTokensOf(request, prompt.ids.length, maxModelLen, engine);
    const state = stateOf(request, this.#settings.scripts);
    const options = allowed(state.options, request.tool_choice);
    const writings = writingsOf(options, callFormat);
    const settings = samplingOf(request);
    const stop = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []);
    const raw = logprobsMode === 'raw';
    const generations = Array.from({ length: request.n ?? 1 }, (_unused, index) => {
      const random = this.#random(request, state, index);
      return generate({
        writings,
        settings,
        promptIds: prompt.ids,
        maxTokens,
        stop,
        includeStop: request.include_stop_str_in_output,
        reader:
          rawCall === undefined ? new CompletionParser(tools.length > 0) : new RawText(rawCall.skipSpecials),
        splitRate,
        uniform: () => random.next(),
      });
    });
    const choices = generations.map((generation, index) =>
      answerChoice(index, generation, request, { raw, faults }),
    );
    const answer = newAnswer(
      request,
      model,
      prompt.ids,
      choices,
      faults,
      rawCall === undefined ? 'chatcmpl' : 'cmpl',
    );
    choices.forEach((choice, index) => {
      const draws = choice.steps.map(({ step }) => step.draw);
      const ids = draws.map(({ id }) => id);
      const delivered =
        rawCall !== undefined
          ? readBack(ids, rawCall.hasTools)
          : request.stream
            ? choice.streamed
            : choice.message;
      this.#remember(prompt.prefix, delivered, choice.callIds.slice(0, delivered.calls.length), ids, request);
      this.#settings.log.add({
        request_id: requestId ?? answer.id,
        id: answer.id,
        model,
        choice: index,
        script: state.matched ? state.script : null,
        turn: state.turn,
        branch: options[generations[index]?.options[0] ?? 0]?.path ?? '',
        prompt_token_ids: [...prompt.ids],
        token_ids: ids,
        logprobs: draws.map((draw) => (raw ? draw.raw : draw.processed)),
        logprobs_mode: logprobsMode,
        finish_reason: finishReason(choice, request, !request.stream),
        temperature: settings.temperature,
        seed: request.seed ?? null,
      });
    });
    return answer;
  }

  #remember(
    prefix: string,
    delivered: TurnContent,
    callIds: readonly string[],
    ids: readonly number[],
    request: ChatRequestBody,
  ): void {
    const message = request.include_reasoning ? delivered : { ...delivered, reasoning: '' };
    const sampled = Int32Array.from(ids);
    this.#settings.memory.remember(prefix, turnKey(message), sampled);
    if (callIds.length > 0) this.#settings.memory.remember(prefix, turnKey(message, callIds), sampled);
  }
}
