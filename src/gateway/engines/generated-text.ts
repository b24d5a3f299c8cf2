import type { ToolDefinition } from '../../contracts/index.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import type { EngineAnswer } from './engine.ts';

export type Spoken = Pick<EngineAnswer, 'content' | 'reasoning' | 'tool_calls'>;

const thinkOpen = '<think>';
const thinkClose = '</think>';
const callOpen = '<tool_call>';
const callClose = '</tool_call>';

/** Thinking in front of the text. A template may have opened it in the prompt already; one that is cut is all there is. */
function splitThinking(text: string): { readonly reasoning: string | null; readonly rest: string } {
  const opened = text.trimStart().startsWith(thinkOpen);
  const close = text.indexOf(thinkClose);
  if (!opened && close < 0) return { reasoning: null, rest: text };
  const from = opened ? text.indexOf(thinkOpen) + thinkOpen.length : 0;
  const reasoning = close < 0 ? text.slice(from) : text.slice(from, close);
  const rest = close < 0 ? '' : text.slice(close + thinkClose.length);
  return { reasoning: reasoning === '' ? null : reasoning, rest };
}

const jsonToken = /\s+|"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s"{}[\]:,]+/gy;

/** The text of a top member's value in a JSON object, as it stands. The text is known to be a JSON object. */
function rawMember(json: string, name: string): string | null {
  let depth = 0;
  let key: string | null = null;
  let start = -1;
  for (const match of json.matchAll(jsonToken)) {
    const [token] = match;
    const ends = depth === 1 && (token === ',' || token === '}');
    if (ends && start >= 0) {
      if (key === name) return json.slice(start, match.index).trim();
      start = -1;
      key = null;
    }
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    else if (depth === 1 && key === null && token.startsWith('"')) key = JSON.parse(token) as string;
    else if (depth === 1 && token === ':' && start < 0) start = match.index + 1;
  }
  return null;
}

/**
 * One call's body: `{"name": ..., "arguments": {...}}` (Hermes, Qwen), or the name on a line of its own and the arguments
 * behind it. Null when it is neither.
 */
function parseCall(body: string): { readonly name: string; readonly arguments: string } | null {
  if (!body.trimStart().startsWith('{')) {
    const end = body.indexOf('\n');
    const name = (end < 0 ? body : body.slice(0, end)).trim();
    return name === '' ? null : { name, arguments: end < 0 ? '' : body.slice(end + 1) };
  }
  try {
    const { name } = JSON.parse(body) as { name?: unknown };
    if (typeof name !== 'string' || name === '') return null;
    return { name, arguments: rawMember(body, 'arguments') ?? '' };
  } catch {
    return null;
  }
}

/** Tool calls out of a text; null where one of them is not closed or cannot be read. */
function splitCalls(text: string): Pick<Spoken, 'content' | 'tool_calls'> | null {
  const calls: { id: string; name: string; arguments: string }[] = [];
  let content = '';
  let from = 0;
  for (let open = text.indexOf(callOpen); open >= 0; open = text.indexOf(callOpen, from)) {
    const close = text.indexOf(callClose, open);
    const call = close < 0 ? null : parseCall(text.slice(open + callOpen.length, close));
    if (call === null) return null;
    const outside = text.slice(from, open);
    if (from === 0 || outside.trim() !== '') content += outside;
    calls.push({ id: '', ...call });
    from = close + callClose.length;
  }
  const after = text.slice(from);
  if (from === 0 || after.trim() !== '') content += after;
  return { content, tool_calls: calls };
}

/**
 * What a sampled text says, read as engines with a Hermes tool parser and a `<think>` reasoning parser read it: for answers
 * of routes that parse nothing. An argument string is the sampled text. A call that is cut or no call leaves all of it
 * text, markup included.
 */
export function parseGeneratedText(
  text: string,
  tools: readonly ToolDefinition[] | undefined,
  _format: CallFormat,
): Spoken {
  const { reasoning, rest } = splitThinking(text);
  const split = tools !== undefined && tools.length > 0 ? splitCalls(rest) : null;
  return { reasoning, ...(split ?? { content: rest, tool_calls: [] }) };
}
