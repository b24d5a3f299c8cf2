import type { ToolDefinition } from '../../../contracts/index.ts';
import { callFormats, type CallFormat } from './call-format.ts';
import type { SaidCall } from './call-syntax.ts';
import { firstMarker } from './held-text.ts';
import { jsonValue } from './json-text.ts';
import { syntaxes } from './syntaxes.ts';

/** The tool that the rendered conversation calls, with `{"at": "here"}`. */
const look: ToolDefinition = {
  type: 'function',
  function: { name: 'look', parameters: { type: 'object', properties: { at: { type: 'string' } } } },
};

/** Kimi's template writes the id of the call where its model writes one with the name. */
const kimiCall =
  /<\|tool_call_begin\|>[^<]*<\|tool_call_argument_begin\|>\s*(\{[^<]*\})\s*<\|tool_call_end\|>/;

/** What stands in front of a call of Llama's, and behind it: other models write the same JSON between other markers. */
const llamaFront = /<\|(?:end_header_id|header_end)\|>\s*(?:<\|python_tag\|>)?$/;
const llamaBehind = /^\s*<\|(?:eot_id|eom_id|eot|eom)\|>/;

function isLook(part: string | SaidCall): boolean {
  return typeof part !== 'string' && part.name === 'look' && isHere(part.arguments);
}

function isHere(given: string): boolean {
  const value = jsonValue(given);
  return JSON.stringify(value) === '{"at":"here"}';
}

/** Whether the text has a call of `look` in this format. */
function hasLook(text: string, format: CallFormat): boolean {
  const syntax = syntaxes[format];
  for (let from = 0; ;) {
    const opener = firstMarker(text, from, syntax.openers);
    if (opener === null) return false;
    const reading = syntax.read(text, opener.at, true, [look]);
    if ('parts' in reading && reading.parts.some(isLook)) {
      const framed = llamaFront.test(text.slice(0, opener.at)) && llamaBehind.test(text.slice(reading.end));
      if (format !== 'llama3_json' || framed) return true;
    }
    from = opener.at + opener.marker.length;
  }
}

/**
 * How a chat template writes calls, read off a rendered conversation in which the assistant calls the tool `look` with the
 * arguments `{"at": "here"}`. Null when it is none of the formats, or more than one.
 */
export function formatOfRendering(text: string): CallFormat | null {
  const [, kimi = ''] = kimiCall.exec(text) ?? [];
  const found = callFormats.filter((format) => (format === 'kimi_k2' ? isHere(kimi) : hasLook(text, format)));
  const [only] = found;
  return found.length === 1 && only !== undefined ? only : null;
}

/** Whether a prompt rendered for an answer opens its thinking. */
export function opensThinking(rendered: string, format: CallFormat): boolean {
  const [open] = syntaxes[format].thinking;
  return rendered.trimEnd().endsWith(open);
}
