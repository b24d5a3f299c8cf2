import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseGeneratedText } from '../../../src/gateway/engines/generated-text.ts';

const tools = [{ type: 'function' as const, function: { name: 'f', parameters: {} } }];
const call = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

test.each<[string, string, unknown]>([
  ['plain text', 'hello\n', { reasoning: null, content: 'hello\n', tool_calls: [] }],
  ['thinking', '<think>\na\n</think>\n\nb', { reasoning: '\na\n', content: '\n\nb' }],
  ['thinking that the prompt opened', 'a</think>b', { reasoning: 'a', content: 'b' }],
  ['thinking that was cut', '<think>a <tool_call>', { reasoning: 'a <tool_call>', content: '' }],
  [
    'text and two calls',
    `I look.\n${call('f', '{ "a":1}')}\n${call('g', '{}')}`,
    {
      content: 'I look.\n',
      tool_calls: [
        { id: '', name: 'f', arguments: '{ "a":1}' },
        { id: '', name: 'g', arguments: '{}' },
      ],
    },
  ],
  ['text behind a call', `${call('f', '{}')} and so`, { content: ' and so', tool_calls: [{ name: 'f' }] }],
  [
    'arguments in front of the name',
    '<tool_call>{"arguments": {"name": "x"}, "name": "f"}</tool_call>',
    { tool_calls: [{ name: 'f', arguments: '{"name": "x"}' }] },
  ],
  ['no arguments', '<tool_call>{"name": "f"}</tool_call>', { tool_calls: [{ name: 'f', arguments: '' }] }],
  [
    'the name on a line of its own',
    '<tool_call>Bash\n{"command": "ls"} </tool_call>',
    { tool_calls: [{ name: 'Bash', arguments: '{"command": "ls"} ' }] },
  ],
  ['a call that was cut', 'x<tool_call>{"na', { content: 'x<tool_call>{"na', tool_calls: [] }],
  [
    'a call that is none',
    'x<tool_call>{"name": }</tool_call>',
    { content: 'x<tool_call>{"name": }</tool_call>', tool_calls: [] },
  ],
  [
    'a call without a name',
    '<tool_call>{"arguments": {}}</tool_call>',
    { content: '<tool_call>{"arguments": {}}</tool_call>', tool_calls: [] },
  ],
])('%s', (_name, text, spoken) => {
  expect(parseGeneratedText(text, tools, 'hermes')).toMatchObject(spoken as object);
});

test('without tools a call is text', () => {
  expect(parseGeneratedText(call('f', '{}'), undefined, 'hermes')).toMatchObject({
    content: call('f', '{}'),
    tool_calls: [],
  });
});

test('arguments are the sampled text, whatever JSON it is', () => {
  const spaced = fc.tuple(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat({ max: 3 }));
  fc.assert(
    fc.property(spaced, ([value, indent]) => {
      const given = JSON.stringify(value, null, indent);
      fc.pre(!given.includes('</tool_call>'));
      expect(parseGeneratedText(call('f', given), tools, 'hermes').tool_calls).toEqual([
        { id: '', name: 'f', arguments: given },
      ]);
    }),
  );
});
