import { isJsonObject, readArguments } from './call-arguments.ts';
import type { ReadCall } from './dialect.ts';

export interface TextTurn {
  /** The first call of the text; null: it has none. */
  readonly call: ReadCall | null;
  /** A done marker stands outside of thinking and calls. */
  readonly done: boolean;
}

const openings = /<think>|<(?:tool_call|function_call)>/g;
const callOpening = /<(?:tool_call|function_call)>/;
const callClosing = /<\/(?:tool_call|function_call)>/g;
const space = /\s*/y;
const doneMarker = /<done>|\[done\]/i;
const thinkEnd = '</think>';
/** Closing braces that may be missing at the end of a call. */
const repairedBraces = 3;

/** Where the text begins behind thinking that the chat template opened, so that only its end was sampled. */
function behindOpenedThinking(text: string): number {
  const end = text.indexOf(thinkEnd);
  const start = text.indexOf('<think>');
  return end >= 0 && (start < 0 || end < start) ? end + thinkEnd.length : 0;
}

/**
 * Where the object that begins at `from` ends, and how many closing braces it lacks: JSON has no `<` outside of strings,
 * so a closing tag ends it. An open string cannot be completed: its count is infinite.
 */
function objectExtent(text: string, from: number): { readonly end: number; readonly missing: number } {
  let depth = 0;
  let inString = false;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (inString) {
      if (char === '\\') at += 1;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '{') depth += 1;
    else if (char === '}') {
      depth -= 1;
      if (depth === 0) return { end: at + 1, missing: 0 };
    } else if (char === '<') return { end: at, missing: depth };
  }
  return { end: text.length, missing: inString ? Infinity : depth };
}

function interpret(value: unknown): ReadCall {
  if (!isJsonObject(value)) return { id: null, name: '', fault: 'it is not a JSON object' };
  const name = value['name'] ?? value['tool'];
  if (typeof name !== 'string' || name.trim() === '') {
    return { id: null, name: '', fault: 'it has no "name"' };
  }
  return { id: null, name: name.trim(), ...readArguments(value['arguments'] ?? value['params']) };
}

function parseCall(text: string, from: number, cutOff: boolean): { call: ReadCall; end: number } {
  space.lastIndex = from;
  const start = from + space.exec(text)![0].length;
  if (text[start] !== '{') {
    return { call: { id: null, name: '', fault: 'it is not a JSON object' }, end: start };
  }
  const { end, missing } = objectExtent(text, start);
  // What the token limit cut off may be more than braces: half a number would be another number.
  const repairs = cutOff || missing > repairedBraces ? 0 : missing;
  try {
    return { call: interpret(JSON.parse(text.slice(start, end) + '}'.repeat(repairs))), end };
  } catch (error) {
    const why = cutOff && missing > 0 ? 'the message was cut off inside it' : (error as Error).message;
    return { call: { id: null, name: '', fault: `it is not valid JSON (${why})` }, end };
  }
}

/** Finds the closing tag behind a place; asked for places in order, it reads the text once, however often it is asked. */
function closings(text: string): (from: number) => number {
  let next: { readonly index: number; readonly end: number } | null | undefined;
  return (from) => {
    if (next === undefined || (next !== null && next.index < from)) {
      callClosing.lastIndex = from;
      const found = callClosing.exec(text);
      next = found === null ? null : { index: found.index, end: found.index + found[0].length };
    }
    return next === null ? from : next.end;
  };
}

/** Whether a text has the markup of a call outside of thinking. */
export function hasCallMarkup(text: string): boolean {
  return callOpening.test(text) && readTextTurn(text, false).call !== null;
}

/**
 * Reads a turn written as text: `<tool_call>{"name": .., "arguments": {..}}</tool_call>` or the same in `function_call`,
 * with the closing tag and up to three closing braces missing if need be, `tool` and `params` for the names of the
 * members. Only the first call counts. `cutOff`: the token limit ended the text.
 */
export function readTextTurn(text: string, cutOff: boolean): TextTurn {
  let at = behindOpenedThinking(text);
  let call: ReadCall | null = null;
  const outside: string[] = [];
  const behindClosing = closings(text);
  for (;;) {
    openings.lastIndex = at;
    const opening = openings.exec(text);
    outside.push(text.slice(at, opening?.index));
    if (opening === null) break;
    const from = opening.index + opening[0].length;
    if (opening[0] === '<think>') {
      const end = text.indexOf(thinkEnd, from);
      if (end < 0) break;
      at = end + thinkEnd.length;
    } else {
      const parsed = parseCall(text, from, cutOff);
      call ??= parsed.call;
      at = behindClosing(parsed.end);
    }
  }
  return { call, done: doneMarker.test(outside.join('\n')) };
}
