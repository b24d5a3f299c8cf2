import { isName, type CallSyntax, type SaidCall } from './call-syntax.ts';
import { jsonValue, memberText, nameIn } from './json-text.ts';

const open = '<tool_call>';
const close = '</tool_call>';

/** `{"name": ..., "arguments": {...}}`. */
function jsonCall(body: string): SaidCall | null {
  const name = nameIn(jsonValue(body));
  return name === null ? null : { id: '', name, arguments: memberText(body, 'arguments') ?? '' };
}

/** The name on a line of its own, and the arguments behind it. */
function lineCall(body: string): SaidCall | null {
  const end = body.indexOf('\n');
  const name = (end < 0 ? body : body.slice(0, end)).trim();
  return isName(name) ? { id: '', name, arguments: end < 0 ? '' : body.slice(end + 1) } : null;
}

/**
 * `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen 2.5 and Qwen 3. Also with the name on a line of
 * its own, as the scripted policy writes it. A last call may lack its closing marker where its JSON is whole.
 */
export const hermes: CallSyntax = {
  openers: [open],
  thinking: ['<think>', '</think>'],
  allOrNone: true,
  read(text, at, final) {
    const from = at + open.length;
    const found = text.indexOf(close, from);
    if (found < 0 && !final) return { until: [close] };
    const body = found < 0 ? text.slice(from) : text.slice(from, found);
    const json = body.trimStart().startsWith('{');
    const call = json ? jsonCall(body) : found < 0 ? null : lineCall(body);
    if (call === null) return { parts: [text.slice(at, from)], end: from };
    return { parts: [call], end: found < 0 ? text.length : found + close.length };
  },
};
