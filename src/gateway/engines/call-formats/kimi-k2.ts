import { readSection, type SectionMarkers } from './call-section.ts';
import { isName, type CallSyntax } from './call-syntax.ts';

const markers: SectionMarkers = {
  begin: '<|tool_calls_section_begin|>',
  end: '<|tool_calls_section_end|>',
  callBegin: '<|tool_call_begin|>',
  callEnd: '<|tool_call_end|>',
  call(body) {
    const argument = '<|tool_call_argument_begin|>';
    const split = body.indexOf(argument);
    const id = body.slice(0, Math.max(0, split)).trim();
    if (!/^[^<]+:\d+$/.test(id)) return null;
    // `functions.NAME:0`, which the template gives back as it stands.
    const name = id.split(':')[0]?.split('.').at(-1) ?? '';
    return isName(name) ? { id, name, arguments: body.slice(split + argument.length).trim() } : null;
  },
};

/** Kimi K2: calls in a section of their own, each with an id that names it. */
export const kimiK2: CallSyntax = {
  openers: [markers.begin],
  thinking: ['<think>', '</think>'],
  endsThinking: [markers.begin, ''],
  read: (text, at, final) => readSection(text, at, final, markers),
};
