import type { ToolDefinition } from '../../../contracts/index.ts';
import {
  isName,
  mayBecome,
  noCall,
  propertiesOf,
  skipBlank,
  unfinished,
  type CallSyntax,
} from './call-syntax.ts';
import { typedValueText } from './typed-value.ts';

const open = '<tool_call>';
const close = '</tool_call>';
const functionOpen = '<function=';
const functionClose = '</function>';
const parameterOpen = '<parameter=';

/** What may end a value: each is part of the value wherever something else follows than may. */
const ends = /<\/parameter>|\n<parameter=([^>\n]*)>|<\/function>/g;

/** What cannot be told yet, and what it waits for; null: anything. */
interface More {
  readonly until: readonly string[] | null;
}

/** Where a value ends, and where the text goes on behind it. */
function valueEnd(
  text: string,
  from: number,
  final: boolean,
  expected: ReadonlySet<string>,
): More | { readonly end: number; readonly next: number } {
  for (const match of text.slice(from).matchAll(ends)) {
    const at = from + match.index;
    const behind = at + match[0].length;
    if (match[1] !== undefined) {
      // A parameter that was not closed, where the tool has the next one.
      if (expected.has(match[1])) return { end: at, next: at + 1 };
      continue;
    }
    const closed = match[0] !== functionClose;
    const next = skipBlank(text, behind);
    const markers = closed ? [parameterOpen, functionClose, close] : [close];
    if (markers.some((marker) => text.startsWith(marker, next))) {
      return { end: at, next: closed ? next : at };
    }
    const cut = markers.some((marker) => mayBecome(text, next, marker));
    if (cut && !final) return { until: null };
    if (!closed && next === text.length) return { end: at, next: at };
  }
  return { until: ['</parameter>', `\n${parameterOpen}`, functionClose] };
}

/** A value without the line breaks that set it off from its markers. */
function bare(value: string): string {
  const from = value.startsWith('\n') ? 1 : 0;
  const to = value.endsWith('\n') && value.length > from ? value.length - 1 : value.length;
  return value.slice(from, to);
}

/** The parameters of a function as JSON, and where the text goes on behind its end. Null: it is no function. */
function parameters(
  text: string,
  from: number,
  final: boolean,
  schema: Readonly<Record<string, unknown>>,
): More | { readonly json: string; readonly end: number } | null {
  const given = new Map<string, string>();
  const expected = new Set(Object.keys(schema));
  for (let at = from; ;) {
    at = skipBlank(text, at);
    const closed = text.startsWith(functionClose, at);
    if (closed || (given.size > 0 && text.startsWith(close, at))) {
      const pairs = [...given].map(([key, value]) => `${JSON.stringify(key)}: ${value}`);
      return { json: `{${pairs.join(', ')}}`, end: closed ? at + functionClose.length : at };
    }
    if ([functionClose, parameterOpen, close].some((marker) => mayBecome(text, at, marker))) {
      return { until: null };
    }
    if (!text.startsWith(parameterOpen, at)) return null;
    const keyEnd = text.indexOf('>', at);
    if (keyEnd < 0) return { until: ['>'] };
    const key = text.slice(at + parameterOpen.length, keyEnd);
    expected.delete(key);
    const value = valueEnd(text, keyEnd + 1, final, expected);
    if ('until' in value) return value;
    given.set(key, typedValueText(bare(text.slice(keyEnd + 1, value.end)), schema[key]));
    at = value.next;
  }
}

/**
 * `<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>`: Qwen 3 Coder and 3.5. The outer
 * markers may be missing. A marker inside of a value is part of it unless what follows fits: a file about this
 * very format can be written.
 */
export const qwen3Coder: CallSyntax = {
  openers: [open, functionOpen],
  thinking: ['<think>', '</think>'],
  endsThinking: [open, '<function'],
  read(text, at, final, tools: readonly ToolDefinition[]) {
    const wrapped = text.startsWith(open, at);
    const length = wrapped ? open.length : functionOpen.length;
    const more = ({ until }: More) => unfinished(text, at, length, final, until);
    const begin = wrapped ? skipBlank(text, at + open.length) : at;
    if (mayBecome(text, begin, functionOpen)) return more({ until: null });
    if (!text.startsWith(functionOpen, begin)) return noCall(text, at, length);
    const nameEnd = text.indexOf('>', begin);
    if (nameEnd < 0) return more({ until: ['>'] });
    const name = text.slice(begin + functionOpen.length, nameEnd);
    if (!isName(name)) return noCall(text, at, length);

    const read = parameters(text, nameEnd + 1, final, propertiesOf(tools, name));
    if (read === null) return noCall(text, at, length);
    if ('until' in read) return more(read);
    const behind = skipBlank(text, read.end);
    if (mayBecome(text, behind, close) && !final) return { until: null };
    const end = text.startsWith(close, behind) ? behind + close.length : read.end;
    return { parts: [{ id: '', name, arguments: read.json }], end };
  },
};
