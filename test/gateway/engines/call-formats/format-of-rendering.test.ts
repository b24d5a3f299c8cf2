import { expect, test } from 'vitest';
import type { CallFormat } from '../../../../src/gateway/engines/call-formats/call-format.ts';
import {
  formatOfRendering,
  opensThinking,
} from '../../../../src/gateway/engines/call-formats/format-of-rendering.ts';

const im = (role: string, text: string): string => `<|im_start|>${role}\n${text}<|im_end|>\n`;
const header = (role: string, text: string): string =>
  `<|start_header_id|>${role}<|end_header_id|>\n\n${text}<|eot_id|>`;
const definition = '{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}';

const renderings: readonly (readonly [string, CallFormat | null, string])[] = [
  [
    'Qwen 2.5, with its instructions',
    'hermes',
    im(
      'system',
      `# Tools\n<tools>\n${definition}\n</tools>\n\nFor each function call, return a json object within <tool_call></tool_call> XML tags:\n` +
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    ) +
      im('user', 'Look around.') +
      im('assistant', '<tool_call>\n{"name": "look", "arguments": {"at": "here"}}\n</tool_call>') +
      im('user', '<tool_response>\nA room.\n</tool_response>'),
  ],
  ['a name on a line of its own', 'hermes', im('assistant', '<tool_call>look\n{"at": "here"}</tool_call>')],
  [
    'Qwen 3 Coder, with its instructions',
    'qwen3_coder',
    im(
      'system',
      'reply with:\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n</function>\n</tool_call>',
    ) +
      im(
        'assistant',
        '<tool_call>\n<function=look>\n<parameter=at>\nhere\n</parameter>\n</function>\n</tool_call>',
      ),
  ],
  [
    'Llama 3',
    'llama3_json',
    `<|begin_of_text|>${header('user', 'Look.')}${header('assistant', '{"name": "look", "parameters": {"at": "here"}}')}`,
  ],
  [
    'Llama 3 with its tag',
    'llama3_json',
    '<|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>{"name": "look", "parameters": {"at": "here"}}<|eom_id|>',
  ],
  [
    'Llama 4',
    'llama3_json',
    '<|header_start|>assistant<|header_end|>\n\n{"name": "look", "parameters": {"at": "here"}}<|eot|>',
  ],
  [
    'Mistral',
    'mistral',
    '<s>[INST] Look around.[/INST][TOOL_CALLS] [{"name": "look", "arguments": {"at": "here"}, "id": "look00001"}]</s>[TOOL_RESULTS]',
  ],
  [
    'a newer Mistral',
    'mistral',
    '<s>[INST]Look around.[/INST][TOOL_CALLS]look[ARGS]{"at": "here"}</s>[TOOL_RESULTS]A room.[/TOOL_RESULTS]',
  ],
  [
    'GLM 4.5',
    'glm45',
    '[gMASK]<sop><|user|>\nLook around.<|assistant|>\n<think></think>\n<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>here</arg_value>\n</tool_call><|observation|>',
  ],
  [
    'Kimi K2, which writes the id alone',
    'kimi_k2',
    '<|im_assistant|>assistant<|im_middle|><|tool_calls_section_begin|><|tool_call_begin|>look00001<|tool_call_argument_begin|>{"at": "here"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>',
  ],
  [
    'DeepSeek V3',
    'deepseek_v3',
    '<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{"at": "here"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
  ],
  [
    'DeepSeek V3.1',
    'deepseek_v31',
    '<｜Assistant｜></think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"at": "here"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  ],
  [
    'gpt-oss',
    null,
    '<|start|>assistant to=functions.look<|channel|>commentary json<|message|>{"at": "here"}<|call|>',
  ],
  [
    'Granite',
    null,
    '<|start_of_role|>assistant<|end_of_role|><|tool_call|>[{"name": "look", "arguments": {"at": "here"}}]',
  ],
  ['Phi 4', null, '<|assistant|>functools[{"name": "look", "arguments": {"at": "here"}}]<|end|>'],
  [
    'a call between other markers',
    null,
    '<longcat_tool_call>\n{"name": "look", "arguments": {"at": "here"}}\n</longcat_tool_call>',
  ],
  ['Python', null, header('assistant', '[look(at="here")]')],
  [
    'a template that writes no calls',
    null,
    im('user', 'Look around.') + im('assistant', '') + im('tool', 'A room.'),
  ],
  [
    'other arguments',
    null,
    im('assistant', '<tool_call>\n{"name": "look", "arguments": {"at": "there"}}\n</tool_call>'),
  ],
  [
    'arguments that were dumped twice',
    null,
    im('assistant', '<tool_call>\n{"name": "look", "arguments": "{\\"at\\": \\"here\\"}"}\n</tool_call>'),
  ],
  ['nothing', null, ''],
];

test.each(renderings)('of %s it is %s', (_name, format, text) => {
  expect(formatOfRendering(text)).toBe(format);
});

test('is none where two formats are found', () => {
  const [qwen, , coder] = renderings;
  expect(formatOfRendering(qwen![2] + coder![2])).toBeNull();
});

test('knows a prompt that opens thinking', () => {
  expect(opensThinking('<|im_start|>assistant\n<think>\n', 'qwen3_coder')).toBe(true);
  expect(opensThinking('<|im_start|>assistant\n<think>\n\n</think>\n\n', 'hermes')).toBe(false);
  expect(opensThinking('<|im_start|>assistant\n', 'hermes')).toBe(false);
});
