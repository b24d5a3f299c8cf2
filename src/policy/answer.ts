import { randomBytes } from 'node:crypto';
import type { ChatRequestBody } from './chat-request.ts';
import type { TurnContent } from './chat-template.ts';
import { faultOf, type Fault } from './faults.ts';
import { assemble, type Generation, type Step } from './generation.ts';
import { scored, type Scored } from './sampler.ts';
import { decodeTokens } from './tokenizer.ts';

interface TopLogprob {
  token: string;
  logprob: number | string | null;
  bytes: readonly number[];
}

interface LogprobEntry extends TopLogprob {
  top_logprobs: TopLogprob[];
}

/** One step of an answer as the wire shows it: usually one id and one entry; faults make it something else. */
interface AnswerStep {
  ids: number[];
  entries: LogprobEntry[];
  readonly step: Step;
}

export interface AnswerChoice {
  readonly index: number;
  readonly steps: AnswerStep[];
  readonly message: TurnContent;
  readonly streamed: TurnContent;
  /** The engine's word: stop, length or abort. */
  readonly engineFinish: string;
  readonly stopString: string | null;
  /** One id for each tool call of the answer. */
  readonly callIds: readonly string[];
}

export interface Answer {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly promptIds: readonly number[] | null;
  readonly choices: readonly AnswerChoice[];
  readonly usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  /** Whether ids and logprobs were asked for and are to be shown. */
  readonly showIds: boolean;
  readonly showLogprobs: boolean;
  readonly showReasoning: boolean;
}

/** Stands for a NaN in JSON text: Python's writer prints the bare word. */
export const nanMark = '\u0000nan\u0000';

const newCallId = (): string => `chatcmpl-tool-${randomBytes(16).toString('hex')}`;

const shown = new Map<number, { text: string; bytes: readonly number[] }>();

/** A token's text, and the bytes of that text: half a character shows as U+FFFD in both. */
function shownToken(id: number): { text: string; bytes: readonly number[] } {
  let found = shown.get(id);
  if (found === undefined) {
    const text = decodeTokens([id]);
    found = { text, bytes: [...Buffer.from(text)] };
    shown.set(id, found);
  }
  return found;
}

function entryOf(step: Step, request: ChatRequestBody, raw: boolean): LogprobEntry {
  const one = ({ id, logprob }: Scored): TopLogprob => {
    const { text, bytes } = shownToken(id);
    return {
      token: request.return_tokens_as_token_ids ? `token_id:${id}` : text,
      logprob: Math.max(Math.fround(logprob), -9999),
      bytes,
    };
  };
  const { draw } = step;
  const sampled = { id: draw.id, logprob: raw ? draw.raw : draw.processed };
  const count = request.top_logprobs ?? 0;
  if (count === 0) return { ...one(sampled), top_logprobs: [] };
  const others = scored(raw ? draw.rawFrom : draw.processedFrom).filter(({ id }) => id !== draw.id);
  // The sampled token comes first whatever its rank, as in the engine.
  const top = [sampled, ...others].slice(0, count).map(one);
  return { ...one(sampled), top_logprobs: top };
}

export function answerChoice(
  index: number,
  generation: Generation,
  request: ChatRequestBody,
  options: { readonly raw: boolean; readonly faults: readonly Fault[] },
): AnswerChoice {
  const aborted = faultOf(options.faults, 'abort') !== undefined;
  const sampled = aborted
    ? generation.steps.slice(0, Math.ceil(generation.steps.length / 2))
    : generation.steps;
  const steps = sampled.map((step) => ({
    step,
    ids: [step.draw.id],
    entries: request.logprobs ? [entryOf(step, request, options.raw)] : [],
  }));
  const one = <T>(items: readonly T[]): readonly T[] =>
    request.parallel_tool_calls === false ? items.slice(0, 1) : items;
  const cut = (turn: TurnContent): TurnContent => ({ ...turn, calls: one(turn.calls) });
  const message = cut(aborted ? assemble(sampled) : generation.message);
  const streamed = cut(aborted ? assemble(sampled) : generation.streamed);
  const choice = {
    index,
    steps,
    message,
    streamed,
    engineFinish: aborted ? 'abort' : generation.finish,
    stopString: aborted ? null : generation.stopString,
    callIds: Array.from({ length: Math.max(message.calls.length, streamed.calls.length) }, newCallId),
  };
  spoil(steps, options.faults);
  return choice;
}

/** Does to ids and logprobs what a fault says. */
function spoil(steps: AnswerStep[], faults: readonly Fault[]): void {
  if (faultOf(faults, 'short_ids') !== undefined) {
    const last = steps.at(-1);
    if (last !== undefined) last.ids = [];
  }
  const fault = faultOf(faults, 'logprob');
  if (fault === undefined) return;
  const step = steps.at(Math.min(fault.position, steps.length - 1));
  const entry = step?.entries[0];
  if (step === undefined || entry === undefined) return;
  if (fault.value === 'missing') step.entries = [];
  else if (fault.value === 'null') entry.logprob = null;
  else if (fault.value === 'nan') entry.logprob = nanMark;
  else entry.logprob = fault.value === 'default' ? -9999 : 0.5;
}

export function newAnswer(
  request: ChatRequestBody,
  model: string,
  promptIds: Int32Array,
  choices: readonly AnswerChoice[],
  faults: readonly Fault[],
  route: 'chatcmpl' | 'cmpl',
): Answer {
  const usage = {
    prompt_tokens: promptIds.length,
    completion_tokens: choices.reduce((sum, choice) => sum + choice.steps.length, 0),
    total_tokens: 0,
  };
  const wrong = faultOf(faults, 'usage');
  if (wrong !== undefined) usage[wrong.field] += wrong.by;
  usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
  // Without reasoning the engine shows neither ids nor logprobs: they would give it away.
  const shown = request.include_reasoning;
  return {
    id: `${route}-${randomBytes(16).toString('hex')}`,
    created: Math.floor(Date.now() / 1000),
    model,
    promptIds: faultOf(faults, 'no_prompt_ids') === undefined ? [...promptIds] : null,
    choices,
    usage,
    showIds: shown && request.return_token_ids === true && faultOf(faults, 'no_ids') === undefined,
    showLogprobs: shown && request.logprobs === true && faultOf(faults, 'no_logprobs') === undefined,
    showReasoning: shown,
  };
}

/** The same answer, aborted half-way: what an engine gives for a call that it was told to end. */
export function abortAnswer(answer: Answer): Answer {
  const choices = answer.choices.map((choice): AnswerChoice => {
    const steps = choice.steps.slice(0, Math.ceil(choice.steps.length / 2));
    const message = assemble(steps.map(({ step }) => step));
    return { ...choice, steps, message, streamed: message, engineFinish: 'abort', stopString: null };
  });
  const completion = choices.reduce((sum, { steps }) => sum + steps.length, 0);
  const { prompt_tokens: prompt } = answer.usage;
  return {
    ...answer,
    choices,
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  };
}
