import { isName, noCall, skipBlank, unfinished, type CallSyntax, type SaidCall } from './call-syntax.ts';
import { bracketEnd, elementTexts, jsonValue, memberText, nameIn } from './json-text.ts';

const open = '[TOOL_CALLS]';
/** No name is longer, with its id: what goes on without arguments is text. */
const longestHead = 300;

/** `[{"name": ..., "arguments": {...}}, ...]`. Null when it is none. */
function listed(json: string): SaidCall[] | null {
  if (!Array.isArray(jsonValue(json))) return null;
  const calls = elementTexts(json).map((element): SaidCall | null => {
    const value = jsonValue(element);
    const name = nameIn(value);
    if (name === null) return null;
    const id = (value as { readonly id?: unknown }).id;
    return {
      id: typeof id === 'string' ? id : '',
      name,
      arguments: memberText(element, 'arguments') ?? '{}',
    };
  });
  return calls.length > 0 && calls.every((call) => call !== null) ? calls : null;
}

/**
 * `[TOOL_CALLS]` with a list of calls behind it, or, from version 11 of its tokenizer, `[TOOL_CALLS]name[ARGS]{...}` for each
 * call, where `[CALL_ID]...` may follow the name and the markers may be missing. There, arguments that are no JSON
 * are still those of a call, as in the engine.
 */
export const mistral: CallSyntax = {
  openers: [open],
  thinking: ['[THINK]', '[/THINK]'],
  read(text, at, final) {
    const from = skipBlank(text, at + open.length);
    const more = (until: readonly string[] | null) => unfinished(text, at, open.length, final, until);
    if (from === text.length) return more(null);
    if (text[from] === '[') {
      const end = bracketEnd(text, from);
      if (end < 0) return more([']']);
      const calls = listed(text.slice(from, end));
      return calls === null ? noCall(text, at, open.length) : { parts: calls, end };
    }
    const brace = text.indexOf('{', from);
    const head = text.slice(from, brace < 0 ? undefined : brace);
    if (head.length > longestHead) return noCall(text, at, open.length);
    if (brace < 0) return more(null);
    const [named = '', id = ''] = head.replace('[ARGS]', '').trimEnd().split('[CALL_ID]');
    if (!isName(named)) return noCall(text, at, open.length);
    const end = bracketEnd(text, brace);
    if (end < 0) return more(['}']);
    return { parts: [{ id, name: named, arguments: text.slice(brace, end) }], end };
  },
};
