import { describe, expect, test } from 'vitest';
import type { CallFormat } from '../../../../src/gateway/engines/call-formats/call-format.ts';
import { parseGeneratedText } from '../../../../src/gateway/engines/generated-text.ts';
import { tools } from './support.ts';

const call = (name: string, given: string, id = '') => ({ id, name, arguments: given });

function reads(format: CallFormat, cases: readonly (readonly [string, string, unknown])[]): void {
  describe(format, () => {
    test.each(cases)('%s', (_name, text, expected) => {
      const said = parseGeneratedText(text, tools, format);
      expect(said).toMatchObject(Array.isArray(expected) ? { tool_calls: expected } : (expected as object));
    });
  });
}

/** It is all text. */
const text = (content: string): unknown => ({ reasoning: null, content, tool_calls: [] });
const same = (name: string, content: string) => [name, content, text(content)] as const;

reads('hermes', [
  [
    'arguments as they were sampled',
    '<tool_call>\n{"arguments":{ "at" :"h\\u0065re", "n": 1.0, "n": 1e2 }, "name":"look"}\n</tool_call>',
    [call('look', '{ "at" :"h\\u0065re", "n": 1.0, "n": 1e2 }')],
  ],
  [
    'numbers that Python writes and JSON has not',
    '<tool_call>{"name": "look", "arguments": {"at": NaN}}</tool_call>',
    [call('look', '{"at": NaN}')],
  ],
  [
    'a last call without its closing marker',
    '<tool_call>{"name": "look", "arguments": {}}',
    [call('look', '{}')],
  ],
  ['a name on a line of its own', '<tool_call>look\n{"at": }</tool_call>', [call('look', '{"at": }')]],
  same('a name that is a sentence', '<tool_call>so to say\n{}</tool_call>'),
  same('a name that is no string', '<tool_call>{"name": 1, "arguments": {}}</tool_call>'),
  same('a line break in a string', '<tool_call>{"name": "look", "arguments": {"at": "a\nb"}}</tool_call>'),
  same(
    'all of it where one call cannot be read',
    'a <tool_call>{"name": "look", "arguments": {}}</tool_call>\n<tool_call>{]</tool_call> b',
  ),
  same(
    'all of it where the last call is cut',
    '<tool_call>{"name": "look", "arguments": {}}</tool_call>\n<tool_call>{"name": "lo',
  ),
]);

const qwen = (inside: string): string => `<tool_call>\n<function=edit>\n${inside}</function>\n</tool_call>`;
reads('qwen3_coder', [
  [
    'values of the types that the tool has',
    qwen(
      '<parameter=line>\n012\n</parameter>\n<parameter=all>\nTrue\n</parameter>\n<parameter=tags>\n["a",  1]\n</parameter>\n' +
        '<parameter=text>\n12\n</parameter>\n<parameter=new>\n12\n</parameter>\n',
    ),
    [call('edit', '{"line": 12, "all": true, "tags": ["a",  1], "text": "12", "new": "12"}')],
  ],
  [
    'one line break on either side, and no more',
    qwen('<parameter=text>\n\n a \n\n</parameter>\n'),
    [call('edit', '{"text": "\\n a \\n"}')],
  ],
  [
    'a file about the format itself',
    qwen('<parameter=text>\nEnd with </parameter>, or </function>, or both.\n</parameter>\n'),
    [call('edit', '{"text": "End with </parameter>, or </function>, or both."}')],
  ],
  [
    'a parameter that was not closed',
    qwen('<parameter=path>\na\n<parameter=text>\nb <parameter=none>\n</parameter>\n'),
    [call('edit', '{"path": "a", "text": "b <parameter=none>"}')],
  ],
  ['a last parameter that was not closed', qwen('<parameter=text>\na\n'), [call('edit', '{"text": "a"}')]],
  [
    'a function without the outer markers',
    'I do. <function=look><parameter=at>here</parameter></function> Done.',
    { content: 'I do.  Done.', tool_calls: [call('look', '{"at": "here"}')] },
  ],
  [
    'a function whose end is missing',
    '<tool_call><function=look><parameter=at>here</parameter></tool_call>',
    [call('look', '{"at": "here"}')],
  ],
  [
    'two functions between one pair of markers',
    '<tool_call><function=rest></function><function=rest></function></tool_call>',
    [call('rest', '{}'), call('rest', '{}')],
  ],
  [
    'the calls that are whole, where the last is cut',
    '<tool_call><function=rest></function></tool_call> <tool_call><function=look><parameter=at>he',
    { content: ' <tool_call><function=look><parameter=at>he', tool_calls: [call('rest', '{}')] },
  ],
  [
    'a call in thinking that was never closed',
    '<think>I <tool_call> so<tool_call>\n<function=rest>\n</function>\n</tool_call>',
    { reasoning: 'I <tool_call> so', content: '', tool_calls: [call('rest', '{}')] },
  ],
  [
    'no call in thinking that is closed',
    '<think><tool_call><function=rest></function></tool_call></think>Yes.',
    { reasoning: '<tool_call><function=rest></function></tool_call>', content: 'Yes.', tool_calls: [] },
  ],
  same('a call in JSON', '<tool_call>{"name": "look", "arguments": {}}</tool_call>'),
  same('a name that is none', '<tool_call><function={name}></function></tool_call>'),
  same('something that is no parameter', '<tool_call><function=rest>now</function></tool_call>'),
]);

reads('llama3_json', [
  [
    'a call behind its tag',
    '<|python_tag|>{"name": "look", "parameters": {"at": "a; {b}"}}',
    [call('look', '{"at": "a; {b}"}')],
  ],
  [
    'calls separated by a semicolon, or by nothing',
    '{"name": "look", "parameters": {}} ; {"name": "rest", "arguments": {}}\n{"type": "function", "name": "rest", "parameters": {}}',
    { content: '', tool_calls: [call('look', '{}'), call('rest', '{}'), call('rest', '{}')] },
  ],
  same('an object that is no call', '{"name": "look"}'),
  same('code', 'function f() { return 1; }\n{"name": "look", "parameters": {}}'),
  same('what follows the tag and is no JSON', '<|python_tag|>look.call(at="here")'),
  same('a call that is cut', '{"name": "look", "parameters": {"at": "he'),
]);

reads('mistral', [
  [
    'a list of calls',
    'So. [TOOL_CALLS] [{"name": "look", "arguments": { "at":"[here]" }, "id": "abc123xyz"}, {"name": "rest"}]',
    {
      content: 'So. ',
      tool_calls: [call('look', '{ "at":"[here]" }', 'abc123xyz'), call('rest', '{}')],
    },
  ],
  ['a name and arguments', '[TOOL_CALLS]look{"at": "here"}', [call('look', '{"at": "here"}')]],
  [
    'the id of a call',
    '[TOOL_CALLS]look[CALL_ID]abc123xyz[ARGS]{"at": "here"}',
    [call('look', '{"at": "here"}', 'abc123xyz')],
  ],
  ['arguments that are no JSON', '[TOOL_CALLS]look[ARGS]{at: here}', [call('look', '{at: here}')]],
  ['thinking between its own markers', '[THINK]hm[/THINK]a<think>', { reasoning: 'hm', content: 'a<think>' }],
  [
    'the calls that are whole, where the last is cut',
    '[TOOL_CALLS]rest[ARGS]{}[TOOL_CALLS]look[ARGS]{"at": "he',
    { content: '[TOOL_CALLS]look[ARGS]{"at": "he', tool_calls: [call('rest', '{}')] },
  ],
  same('a list with something that is no call', '[TOOL_CALLS][{"name": "look"}, 1]'),
  same('a list of nothing', '[TOOL_CALLS][]'),
  same('a name without arguments', '[TOOL_CALLS]look'),
  same('a sentence', '[TOOL_CALLS] are made like {this}'),
]);

reads('glm45', [
  [
    'strings where the tool has strings, and values elsewhere',
    '\n<tool_call>edit\n<arg_key>text</arg_key>\n<arg_value> 12\n</arg_value>\n<arg_key>line</arg_key><arg_value>12</arg_value>\n' +
      "<arg_key>tags</arg_key><arg_value>['a', True]</arg_value><arg_key>new</arg_key><arg_value>a b </arg_value></tool_call>",
    {
      content: '',
      tool_calls: [call('edit', '{"text": " 12\\n", "line": 12, "tags": ["a", true], "new": "a b"}')],
    },
  ],
  [
    'no line break behind the name',
    '<tool_call>look<arg_key>at</arg_key><arg_value>here</arg_value></tool_call><tool_call>rest</tool_call>',
    [call('look', '{"at": "here"}'), call('rest', '{}')],
  ],
  [
    'a closing marker in a value',
    '<tool_call>look\n<arg_key>at</arg_key>\n<arg_value></tool_call></arg_value>\n</tool_call>',
    [call('look', '{"at": "</tool_call>"}')],
  ],
  [
    'the calls that can be read',
    '<tool_call>so to say</tool_call><tool_call>rest\n</tool_call>',
    { content: '<tool_call>so to say</tool_call>', tool_calls: [call('rest', '{}')] },
  ],
  same('a key without a value', '<tool_call>look\n<arg_key>at</arg_key>\n</tool_call>'),
  same('a call in JSON', '\n<tool_call>{"name": "look", "arguments": {}}</tool_call>'),
]);

const kimi = (calls: string): string => `<|tool_calls_section_begin|>${calls}<|tool_calls_section_end|>`;
const kimiCall = (id: string, given: string): string =>
  `<|tool_call_begin|>${id}<|tool_call_argument_begin|>${given}<|tool_call_end|>`;
reads('kimi_k2', [
  [
    'ids, which the template gives back',
    kimi(kimiCall('functions.look:0', ' {"at":"<here>"} ') + kimiCall('rest:11', '{}')),
    [call('look', '{"at":"<here>"}', 'functions.look:0'), call('rest', '{}', 'rest:11')],
  ],
  [
    'the calls that can be read',
    `a${kimi(`${kimiCall('look', '{}')}\n${kimiCall('rest:0', '{}')}<|tool_call_begin|>rest:1`)}b`,
    {
      content: `a${kimiCall('look', '{}')}\n<|tool_call_begin|>rest:1b`,
      tool_calls: [call('rest', '{}', 'rest:0')],
    },
  ],
  [
    'a call that ends thinking',
    `<think>hm${kimi(kimiCall('rest:0', '{}'))}`,
    { reasoning: 'hm', content: '', tool_calls: [call('rest', '{}', 'rest:0')] },
  ],
  same('a section of nothing', kimi('')),
  same('a call outside of a section', kimiCall('rest:0', '{}')),
]);

const deepseek = (call: string): string =>
  `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${call}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`;
reads('deepseek_v3', [
  [
    'a block with a fence in it',
    deepseek('function<｜tool▁sep｜>look\n```json\n{"at": "```"}\n```'),
    [call('look', '{"at": "```"}')],
  ],
  same('a call without a block', deepseek('function<｜tool▁sep｜>look\n{}')),
  same('a call of another kind', deepseek('search<｜tool▁sep｜>look\n```json\n{}\n```')),
]);
reads('deepseek_v31', [
  ['a call', deepseek('look<｜tool▁sep｜>{"at":\n1}'), [call('look', '{"at":\n1}')]],
  same('a call without a name', deepseek('<｜tool▁sep｜>{}')),
]);
