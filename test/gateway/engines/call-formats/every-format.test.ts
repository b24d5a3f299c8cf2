import { describe, expect, test } from 'vitest';
import { callFormats } from '../../../../src/gateway/engines/call-formats/call-format.ts';
import { parseGeneratedText } from '../../../../src/gateway/engines/generated-text.ts';
import { tools, writers, type Call } from './support.ts';

const here: Call = { name: 'look', given: { at: 'here' } };
const hard: Call = {
  name: 'edit',
  given: {
    path: 'a/é😀.ts',
    text: 'if (a) { b["}"] = \'{\'; }\n\n// "quoted" \\ and [x](y) <b>',
    line: 12,
    all: true,
    tags: ['{', ']', '\u2028'],
  },
};
const nothing: Call = { name: 'rest', given: {} };
const stranger: Call = { name: 'mcp__far__away', given: { x: 'y' } };

describe.each(callFormats)('%s', (format) => {
  const write = writers[format];
  const thinkingMarkers = format === 'mistral' ? ['[THINK]', '[/THINK]'] : ['<think>', '</think>'];
  const read = (text: string) => {
    const { reasoning, content, tool_calls: calls } = parseGeneratedText(text, tools, format);
    return {
      reasoning,
      content,
      calls: calls.map((call) => ({
        name: call.name,
        given: JSON.parse(call.arguments) as Record<string, unknown>,
      })),
    };
  };

  test.each([
    ['one call', [here]],
    ['brackets, quotes, line breaks and all of Unicode in strings', [hard]],
    ['no arguments', [nothing]],
    ['a tool that nobody defined', [stranger]],
    ['several calls', [here, hard, nothing, stranger]],
  ])('reads %s', (_name, calls) => {
    expect(read(write(calls))).toEqual({ reasoning: null, content: '', calls });
  });

  test('keeps the text in front, and leaves white space behind', () => {
    expect(read(`I look.\n\n${write([here, here])}\n`)).toEqual({
      reasoning: null,
      content: 'I look.\n\n',
      calls: [here, here],
    });
  });

  test('keeps text between and behind', () => {
    const text = `First ${write([here])} then ${write([hard])} and so on`;
    expect(read(text)).toEqual({
      reasoning: null,
      content: 'First  then  and so on',
      calls: [here, hard],
    });
  });

  test('splits off the thinking', () => {
    const [open, close] = thinkingMarkers;
    expect(read(`${open}\nWhere? ${close}\n\n${write([here])}`)).toEqual({
      reasoning: '\nWhere? ',
      content: format === 'glm45' ? '' : '\n\n',
      calls: [here],
    });
    expect(parseGeneratedText(`${open}cut`, tools, format)).toEqual({
      reasoning: 'cut',
      content: '',
      tool_calls: [],
    });
  });

  test('finds the end of thinking that the prompt opened', () => {
    const text = `Where?${thinkingMarkers[1]}${write([here])}`;
    expect(parseGeneratedText(text, tools, format, true)).toMatchObject({ reasoning: 'Where?' });
    expect(parseGeneratedText('a', tools, format, true)).toMatchObject({ reasoning: 'a', content: '' });
    expect(parseGeneratedText(text, tools, format, false)).toMatchObject({
      reasoning: null,
      content: `Where?${thinkingMarkers[1]}`,
    });
  });

  test('leaves a call that is cut as it is, wherever it is cut', () => {
    const whole = write([hard]);
    for (let length = 1; length < whole.length; length++) {
      const text = `I look. ${whole.slice(0, length)}`;
      const { content, tool_calls: calls } = parseGeneratedText(text, tools, format);
      // Nothing but closing markers may be missing from a call.
      if (calls.length > 0) expect(read(text).calls).toEqual([hard]);
      else expect(content).toBe(text);
    }
  });

  test('reads no calls without tools', () => {
    for (const none of [undefined, []]) {
      expect(parseGeneratedText(write([here]), none, format)).toEqual({
        reasoning: null,
        content: write([here]),
        tool_calls: [],
      });
    }
  });

  test('reads a long call, and a thousand of them, in no time', () => {
    const long: Call = { name: 'edit', given: { path: 'p', text: 'x{"y"}\n'.repeat(60_000) } };
    expect(read(write([long])).calls).toEqual([long]);
    expect(read(write(Array.from({ length: 1000 }, () => here))).calls).toHaveLength(1000);
  });
});
