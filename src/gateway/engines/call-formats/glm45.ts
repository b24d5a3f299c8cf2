import {
  isName,
  mayBecome,
  noCall,
  propertiesOf,
  skipBlank,
  unfinished,
  type CallSyntax,
} from './call-syntax.ts';
import { jsonValue } from './json-text.ts';
import { literalAsJson } from './python-literal.ts';

const open = '<tool_call>';
const close = '</tool_call>';
const key = ['<arg_key>', '</arg_key>'] as const;
const value = ['<arg_value>', '</arg_value>'] as const;

/** A string where the schema says so; else what it is as JSON or as Python, and a string when it is neither. */
function valueText(text: string, schema: unknown): string {
  if ((schema as { readonly type?: unknown } | null | undefined)?.type === 'string')
    return JSON.stringify(text);
  const bare = text.trim();
  return jsonValue(bare) === undefined ? (literalAsJson(bare) ?? JSON.stringify(bare)) : bare;
}

/**
 * `<tool_call>name`, then pairs of `<arg_key>` and `<arg_value>`, then `</tool_call>`: GLM 4.5 and its followers. A closing
 * marker inside of a value ends nothing.
 */
export const glm45: CallSyntax = {
  openers: [open],
  thinking: ['<think>', '</think>'],
  dropsBlankLead: true,
  read(text, at, final, tools) {
    const more = () => unfinished(text, at, open.length, final, [close]);
    const none = () => noCall(text, at, open.length);
    const from = at + open.length;
    const head = /\n|<arg_key>|<\/tool_call>/.exec(text.slice(from));
    if (head === null) return more();
    const name = text.slice(from, from + head.index).trim();
    if (!isName(name)) return none();

    const schema = propertiesOf(tools, name);
    const given = new Map<string, string>();
    for (let place = from + head.index; ;) {
      place = skipBlank(text, place);
      if (text.startsWith(close, place)) {
        const pairs = [...given].map(([each, json]) => `${JSON.stringify(each)}: ${json}`);
        return { parts: [{ id: '', name, arguments: `{${pairs.join(', ')}}` }], end: place + close.length };
      }
      if (mayBecome(text, place, close) || mayBecome(text, place, key[0])) return more();
      if (!text.startsWith(key[0], place)) return none();
      const keyEnd = text.indexOf(key[1], place);
      if (keyEnd < 0) return more();
      const argument = text.slice(place + key[0].length, keyEnd).trim();
      place = skipBlank(text, keyEnd + key[1].length);
      if (mayBecome(text, place, value[0])) return more();
      if (!text.startsWith(value[0], place)) return none();
      const valueEnd = text.indexOf(value[1], place);
      if (valueEnd < 0) return more();
      given.set(argument, valueText(text.slice(place + value[0].length, valueEnd), schema[argument]));
      place = valueEnd + value[1].length;
    }
  },
};
