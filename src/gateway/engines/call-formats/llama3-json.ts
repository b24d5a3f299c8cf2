import { skipBlank, unfinished, noCall, type CallSyntax } from './call-syntax.ts';
import { bracketEnd, jsonValue, memberText, nameIn } from './json-text.ts';

const tag = '<|python_tag|>';

/**
 * `{"name": ..., "parameters": {...}}`, several separated by `;`, behind `<|python_tag|>` or nothing: Llama 3 and 4. Any
 * other object in the text makes all of it text.
 */
export const llama3Json: CallSyntax = {
  openers: [tag, '{'],
  thinking: ['<think>', '</think>'],
  allOrNone: true,
  read(text, at, final) {
    const tagged = text.startsWith(tag, at);
    const length = tagged ? tag.length : 1;
    const from = tagged ? skipBlank(text, at + length) : at;
    if (from === text.length) return unfinished(text, at, length, final, null);
    if (text[from] !== '{') return noCall(text, at, length);
    const end = bracketEnd(text, from);
    if (end < 0) return unfinished(text, at, length, final, ['}']);
    const json = text.slice(from, end);
    const name = nameIn(jsonValue(json));
    const given = name === null ? null : (memberText(json, 'arguments') ?? memberText(json, 'parameters'));
    if (name === null || given === null) return noCall(text, at, length);
    // Whether a separator follows.
    const next = skipBlank(text, end);
    if (next === text.length && !final) return { until: null };
    return { parts: [{ id: '', name, arguments: given }], end: text[next] === ';' ? next + 1 : end };
  },
};
