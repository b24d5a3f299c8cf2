import { messageText, type RequestMessage } from './chat-request.ts';
import { turnOf, type TurnContent } from './chat-template.ts';
import { fillTurn, type FilledTurn, type Placeholders } from './script-turn.ts';
import type { Script, ScriptBranch, ScriptStep, ScriptTurn } from './script-schema.ts';

/** A place in a script: the step at `index` of `steps`, and where to go on after the last one. */
interface Cursor {
  readonly steps: readonly ScriptStep[];
  readonly index: number;
  readonly round: number;
  readonly parent: Cursor | null;
}

interface Choice {
  readonly weight: number;
  readonly turn: ScriptTurn;
  readonly next: Cursor | null;
  /** The branches taken to get here, for logs: `1/0`. */
  readonly path: string;
}

/** One way the policy may go on, with its prior weight. */
export interface TurnOption {
  readonly weight: number;
  readonly turn: FilledTurn;
  readonly path: string;
}

export interface ScriptState {
  readonly script: string;
  /** Number of the turn to be sampled, from 0. */
  readonly turn: number;
  /** Empty when the script has ended. */
  readonly options: readonly TurnOption[];
}

function taking(branches: readonly ScriptBranch[], toolResult: string): readonly ScriptBranch[] {
  const holding = branches.filter(
    ({ when_tool_result_contains: text }) => text !== undefined && toolResult.includes(text),
  );
  return holding.length > 0 ? holding : branches.filter((b) => b.when_tool_result_contains === undefined);
}

/** Every turn that may come at a cursor. */
function choices(cursor: Cursor | null, toolResult: string, weight = 1, path = ''): Choice[] {
  if (cursor === null) return [];
  const { steps, index, round, parent } = cursor;
  const step = steps[index];
  if (step === undefined) return choices(parent, toolResult, weight, path);
  const after: Cursor = { steps, index: index + 1, round: 0, parent };
  if ('branches' in step) {
    const branches = taking(step.branches, toolResult);
    const total = branches.reduce((sum, branch) => sum + branch.p, 0);
    return branches.flatMap((branch) =>
      choices(
        { steps: branch.turns, index: 0, round: 0, parent: after },
        toolResult,
        (weight * branch.p) / total,
        `${path}/${step.branches.indexOf(branch)}`,
      ),
    );
  }
  if ('repeat' in step) {
    if (round >= step.repeat) return choices(after, toolResult, weight, path);
    const again: Cursor = { steps, index, round: round + 1, parent };
    return choices({ steps: step.turns, index: 0, round: 0, parent: again }, toolResult, weight, path);
  }
  return [{ weight, turn: step, next: after, path }];
}

/** How well a turn of history fits what a script would have written: 0 for not at all. */
function fit(turn: FilledTurn, said: TurnContent): number {
  if (turn.kind === 'raw') return turn.says(said) ? 4 : 0;
  const names = (calls: TurnContent['calls']): string => JSON.stringify(calls.map((call) => call.name));
  if (names(turn.calls) !== names(said.calls)) return 0;
  const text = turn.texts.some((candidate) => candidate.trim() === said.content.trim());
  // A turn that ran into its token limit left only its beginning.
  const begun = turn.texts.some((candidate) => said.content !== '' && candidate.startsWith(said.content));
  const sameArguments = turn.calls.every((call, at) => call.same(said.calls[at]?.arguments ?? ''));
  return 1 + (sameArguments ? 2 : 0) + (text ? 1 : begun ? 0.5 : 0);
}

/** Text of the tool results that directly precede `end`. */
function toolResultBefore(messages: readonly RequestMessage[], end: number): string {
  const texts: string[] = [];
  for (let at = end - 1; at >= 0; at -= 1) {
    const message = messages[at];
    if (message === undefined || message.role === 'assistant') break;
    if (message.role === 'tool') texts.unshift(messageText(message));
  }
  return texts.join('\n');
}

/** The first script whose text stands in a user message, and the last message it stands in. */
export function findScript(
  scripts: readonly Script[],
  messages: readonly RequestMessage[],
): { script: Script; at: number } | null {
  const users = messages.map((message) => (message.role === 'user' ? messageText(message) : null));
  for (const script of scripts) {
    const at = users.findLastIndex((text) => text?.includes(script.match));
    if (at >= 0) return { script, at };
  }
  return null;
}

/**
 * Where an episode stands, from the request alone: the script is walked along the assistant turns of the history, and
 * every branch that could have said them stays alive with its posterior weight. So any replica can take the next call.
 */
export function walkScript(
  script: Script,
  at: number,
  messages: readonly RequestMessage[],
  placeholders: Placeholders,
): ScriptState {
  let alive: { weight: number; cursor: Cursor | null; path: string }[] = [
    { weight: 1, cursor: { steps: script.turns, index: 0, round: 0, parent: null }, path: '' },
  ];
  const expand = (end: number): Choice[] => {
    const toolResult = toolResultBefore(messages, end);
    return alive.flatMap(({ weight, cursor, path }) => choices(cursor, toolResult, weight, path));
  };
  let turn = 0;
  for (let index = at + 1; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role !== 'assistant') continue;
    const said = turnOf(message);
    const rated = expand(index).map((choice) => ({
      choice,
      fit: fit(fillTurn(choice.turn, { ...placeholders, turn }), said),
    }));
    const best = Math.max(0, ...rated.map((entry) => entry.fit));
    const kept = rated.filter((entry) => entry.fit === best).map((entry) => entry.choice);
    const total = kept.reduce((sum, choice) => sum + choice.weight, 0);
    alive = kept.map(({ weight, next, path }) => ({ weight: weight / total, cursor: next, path }));
    turn += 1;
  }
  const options = expand(messages.length).map(({ weight, turn: scripted, path }) => ({
    weight,
    path,
    turn: fillTurn(scripted, { ...placeholders, turn }),
  }));
  return { script: script.name ?? script.match, turn, options };
}
