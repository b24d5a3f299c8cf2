import { messageText, type RequestMessage } from './chat-request.ts';
import { turnParts, type CallFormat, type TurnContent, type TurnPart } from './chat-template.ts';
import { CompletionParser } from './completion-parser.ts';
import { pythonDumps, pythonLoads, type PythonValue, PythonNumber } from './python-json.ts';
import { splitSpecials } from './special-tokens.ts';
import { encodeWithSpecials } from './tokenizer.ts';
import type { ScriptTurn } from './script-schema.ts';

/** What `{{workdir}}` and `{{turn}}` stand for in this request. */
export interface Placeholders {
  readonly workdir: string;
  readonly turn: number;
}

interface FilledCall {
  readonly name: string;
  readonly arguments: string;
  /** Whether these arguments mean the same: byte for byte, or as JSON whatever its spacing and order. */
  same(text: string): boolean;
}

/** A turn of a script with its placeholders filled. */
export type FilledTurn =
  | {
      readonly kind: 'turn';
      readonly thinkings: readonly string[];
      readonly texts: readonly string[];
      readonly calls: readonly FilledCall[];
    }
  | { readonly kind: 'raw'; readonly text: string; says(said: TurnContent): boolean };

function canonical(value: PythonValue): unknown {
  if (value instanceof PythonNumber) return Number(value.text);
  if (Array.isArray(value)) return (value as readonly PythonValue[]).map(canonical);
  if (value instanceof Map) {
    const members = [...(value as ReadonlyMap<string, PythonValue>)].map(([key, item]) => [
      key,
      canonical(item),
    ]);
    return members.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  }
  return value;
}

function meaning(text: string): string {
  try {
    return JSON.stringify(canonical(pythonLoads(text)));
  } catch {
    return text;
  }
}

function fillJson(value: unknown, fill: (text: string) => string): unknown {
  if (typeof value === 'string') return fill(value);
  if (Array.isArray(value)) return value.map((item) => fillJson(item, fill));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillJson(item, fill)]));
  }
  return value;
}

export function fillTurn(turn: ScriptTurn, placeholders: Placeholders): FilledTurn {
  const fill = (text: string): string =>
    text
      .replaceAll('{{workdir}}', () => placeholders.workdir)
      .replaceAll('{{turn}}', String(placeholders.turn));
  if (turn.raw !== undefined) {
    const text = fill(turn.raw);
    return { kind: 'raw', text, says: (said) => rawSays(text, said) };
  }
  const wordings = (value: string | string[] | undefined): string[] =>
    (value === undefined ? [''] : typeof value === 'string' ? [value] : value).map(fill);
  return {
    kind: 'turn',
    thinkings: wordings(turn.thinking),
    texts: wordings(turn.text),
    calls: (turn.tool_calls ?? []).map((call) => {
      const text =
        typeof call.arguments === 'string'
          ? fill(call.arguments)
          : pythonDumps(fillJson(call.arguments, fill));
      return {
        name: call.name,
        arguments: text,
        same: (other) => other === text || meaning(other) === meaning(text),
      };
    }),
  };
}

function rawSays(text: string, said: TurnContent): boolean {
  const parser = new CompletionParser(true);
  for (const id of encodeWithSpecials(text)) parser.push(id);
  const message = parser.message();
  return (
    message.content.trim() === said.content.trim() &&
    JSON.stringify(message.calls.map((call) => call.name)) ===
      JSON.stringify(said.calls.map((call) => call.name))
  );
}

/** Every way a turn can be written, one for each combination of its wordings. */
export function turnWritings(turn: FilledTurn, format: CallFormat): readonly TurnPart[][] {
  if (turn.kind === 'raw') return [splitSpecials(turn.text)];
  return turn.thinkings.flatMap((reasoning) =>
    turn.texts.map((content) => turnParts({ reasoning, content, calls: turn.calls }, format)),
  );
}

/** Names of the tools a turn calls. */
export function calledTools(turn: FilledTurn): readonly string[] {
  return turn.kind === 'raw' ? [] : turn.calls.map((call) => call.name);
}

// What the agent's command line says first, then what other agents say.
const workdirLines = [
  /primary working directory\s*:[ `]*(\/[^\n`]*)/i,
  /(?:working directory|cwd)\s*:[ `]*(\/[^\n`]*)/i,
];

/** The working directory the agent names in its system or environment message; `/workspace` when it names none. */
export function findWorkdir(messages: readonly RequestMessage[]): string {
  const texts = messages
    .filter((message) => message.role === 'system' || message.role === 'user')
    .map((message) => messageText(message));
  for (const line of workdirLines) {
    for (const text of texts) {
      const found = line.exec(text)?.[1]?.trim();
      if (found !== undefined) return found.length > 1 ? found.replace(/\/+$/, '') : found;
    }
  }
  return '/workspace';
}
