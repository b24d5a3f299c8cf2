import type { Delta, TurnReader } from './completion-parser.ts';
import type { TurnContent } from './chat-template.ts';
import { NextToken, type WeightedWriting } from './distribution.ts';
import { draw, type Draw, type SamplingSettings } from './sampler.ts';
import { endOfTurn } from './special-tokens.ts';
import { isSpecial, tokenBytes } from './tokenizer.ts';

export interface Step {
  readonly draw: Draw;
  readonly deltas: readonly Delta[];
}

export interface Generation {
  readonly steps: readonly Step[];
  readonly finish: 'stop' | 'length';
  /** The stop string that was met; null for the end token and for the token limit. */
  readonly stopString: string | null;
  /** The message of an answer given whole. */
  readonly message: TurnContent;
  /** The message a client puts together from the deltas: differs where a tool call was cut. */
  readonly streamed: TurnContent;
  /** Options of the script that the sampled tokens can belong to, most likely first. */
  readonly options: readonly number[];
}

export interface GenerationRequest {
  readonly writings: readonly WeightedWriting[];
  readonly settings: SamplingSettings;
  readonly promptIds: Int32Array;
  readonly maxTokens: number;
  readonly stop: readonly string[];
  readonly includeStop: boolean;
  /** What makes a message of the ids. */
  readonly reader: TurnReader;
  readonly splitRate: number;
  readonly uniform: () => number;
}

function textOf(deltas: readonly Delta[]): string {
  return deltas.map((delta) => ('text' in delta ? delta.text : '')).join('');
}

/** Keeps the first `length` characters of the text of all steps. */
function cutText(steps: readonly Step[], length: number): Step[] {
  let left = length;
  return steps.map(({ draw: sampled, deltas }) => ({
    draw: sampled,
    deltas: deltas.flatMap((delta): Delta[] => {
      if (!('text' in delta)) return left > 0 ? [delta] : [];
      const text = delta.text.slice(0, left);
      left -= text.length;
      return text === '' ? [] : [{ ...delta, text }];
    }),
  }));
}

/** Puts a message together from deltas, as a client does. */
export function assemble(steps: readonly Step[]): TurnContent {
  let reasoning = '';
  let content = '';
  const calls: { name: string; arguments: string }[] = [];
  for (const delta of steps.flatMap((step) => step.deltas)) {
    if (delta.kind === 'reasoning') reasoning += delta.text;
    else if (delta.kind === 'content') content += delta.text;
    else if (delta.kind === 'call') calls[delta.index] = { name: delta.name, arguments: '' };
    else {
      const open = calls[delta.index];
      if (open !== undefined) open.arguments += delta.text;
    }
  }
  return { reasoning, content, calls };
}

function earliestStop(
  text: string,
  from: number,
  stop: readonly string[],
): { at: number; text: string } | null {
  let found: { at: number; text: string } | null = null;
  for (const candidate of stop) {
    const at = text.indexOf(candidate, Math.max(0, from - candidate.length + 1));
    if (candidate !== '' && at >= 0 && (found === null || at < found.at)) found = { at, text: candidate };
  }
  return found;
}

/** Samples one answer. */
export function generate(request: GenerationRequest): Generation {
  const next = new NextToken(request.writings, request.splitRate);
  const parser = request.reader;
  const output = new Map<number, number>();
  const needsPrompt = request.settings.repetitionPenalty !== 1;
  const prompt: ReadonlySet<number> = needsPrompt ? new Set(request.promptIds) : new Set();
  const steps: Step[] = [];
  let text = '';
  while (steps.length < request.maxTokens) {
    const sampled = draw(next.candidates(), request.settings, { output, prompt }, request.uniform);
    output.set(sampled.id, (output.get(sampled.id) ?? 0) + 1);
    if (sampled.id === endOfTurn) {
      steps.push({ draw: sampled, deltas: parser.flush() });
      return finished('stop', null);
    }
    next.accept(sampled.id, isSpecial(sampled.id) ? 1 : tokenBytes(sampled.id).length);
    const deltas = parser.push(sampled.id);
    steps.push({ draw: sampled, deltas });
    if (request.stop.length > 0) {
      const from = text.length;
      text += textOf(deltas);
      const met = earliestStop(text, from, request.stop);
      if (met !== null) {
        const kept = cutText(steps, met.at + (request.includeStop ? met.text.length : 0));
        const message = assemble(kept);
        const options = next.options();
        return { steps: kept, finish: 'stop', stopString: met.text, message, streamed: message, options };
      }
    }
  }
  return finished('length', null);

  function finished(finish: 'stop' | 'length', stopString: string | null): Generation {
    const message = parser.message();
    return { steps, finish, stopString, message, streamed: assemble(steps), options: next.options() };
  }
}
