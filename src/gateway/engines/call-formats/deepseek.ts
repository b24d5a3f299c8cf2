import { readSection, type SectionMarkers } from './call-section.ts';
import { isName, type CallSyntax, type SaidCall } from './call-syntax.ts';

const separator = '<｜tool▁sep｜>';

function syntax(call: (head: string, behind: string) => SaidCall | null): CallSyntax {
  const markers: SectionMarkers = {
    begin: '<｜tool▁calls▁begin｜>',
    end: '<｜tool▁calls▁end｜>',
    callBegin: '<｜tool▁call▁begin｜>',
    callEnd: '<｜tool▁call▁end｜>',
    call(body) {
      const split = body.indexOf(separator);
      return split < 0 ? null : call(body.slice(0, split), body.slice(split + separator.length));
    },
  };
  return {
    openers: [markers.begin],
    thinking: ['<think>', '</think>'],
    read: (text, at, final) => readSection(text, at, final, markers),
  };
}

/** DeepSeek V3 and R1: the kind of the call, its name on a line, and its arguments as a block of JSON. */
export const deepseekV3 = syntax((kind, behind) => {
  if (kind !== 'function') return null;
  const [, name = '', given] = /^(.*)\n```json\n([\s\S]*)\n```$/.exec(behind.trimEnd()) ?? [];
  return given !== undefined && isName(name) ? { id: '', name, arguments: given } : null;
});

/** DeepSeek V3.1: the name and the arguments. */
export const deepseekV31 = syntax((name, given) =>
  isName(name.trim()) ? { id: '', name: name.trim(), arguments: given } : null,
);
