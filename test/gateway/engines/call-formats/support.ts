import type { ToolDefinition } from '../../../../src/contracts/index.ts';
import type { CallFormat } from '../../../../src/gateway/engines/call-formats/call-format.ts';

const tool = (name: string, properties: Record<string, unknown>): ToolDefinition => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties } },
});

export const tools: readonly ToolDefinition[] = [
  tool('look', { at: { type: 'string' } }),
  tool('edit', {
    path: { type: 'string' },
    text: { type: 'string' },
    line: { type: 'integer' },
    all: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
  }),
  tool('rest', {}),
];

export interface Call {
  readonly name: string;
  /** In the order of the schema; for formats that carry JSON, as one. */
  readonly given: Readonly<Record<string, unknown>>;
}

const json = (value: unknown): string => JSON.stringify(value);
const bare = (value: unknown): string => (typeof value === 'string' ? value : json(value));

const section = (begin: string, end: string, calls: readonly string[], between = ''): string =>
  `${begin}${calls.join(between)}${end}`;

/** How a model writes calls in each format. */
export const writers: Readonly<Record<CallFormat, (calls: readonly Call[]) => string>> = {
  hermes: (calls) =>
    calls
      .map(
        ({ name, given }) =>
          `<tool_call>\n{"name": ${json(name)}, "arguments": ${json(given)}}\n</tool_call>`,
      )
      .join('\n'),
  qwen3_coder: (calls) =>
    calls
      .map(({ name, given }) => {
        const parameters = Object.entries(given).map(
          ([key, value]) => `<parameter=${key}>\n${bare(value)}\n</parameter>\n`,
        );
        return `<tool_call>\n<function=${name}>\n${parameters.join('')}</function>\n</tool_call>`;
      })
      .join('\n'),
  llama3_json: (calls) =>
    calls.map(({ name, given }) => `{"name": ${json(name)}, "parameters": ${json(given)}}`).join('; '),
  mistral: (calls) => calls.map(({ name, given }) => `[TOOL_CALLS]${name}[ARGS]${json(given)}`).join(''),
  glm45: (calls) =>
    calls
      .map(({ name, given }) => {
        const pairs = Object.entries(given).map(
          ([key, value]) => `<arg_key>${key}</arg_key>\n<arg_value>${bare(value)}</arg_value>\n`,
        );
        return `<tool_call>${name}\n${pairs.join('')}</tool_call>`;
      })
      .join('\n'),
  kimi_k2: (calls) =>
    section(
      '<|tool_calls_section_begin|>',
      '<|tool_calls_section_end|>',
      calls.map(
        ({ name, given }, at) =>
          `<|tool_call_begin|>functions.${name}:${at}<|tool_call_argument_begin|>${json(given)}<|tool_call_end|>`,
      ),
    ),
  deepseek_v3: (calls) =>
    section(
      '<｜tool▁calls▁begin｜>',
      '<｜tool▁calls▁end｜>',
      calls.map(
        ({ name, given }) =>
          `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(given)}\n\`\`\`<｜tool▁call▁end｜>`,
      ),
      '\n',
    ),
  deepseek_v31: (calls) =>
    section(
      '<｜tool▁calls▁begin｜>',
      '<｜tool▁calls▁end｜>',
      calls.map(
        ({ name, given }) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(given)}<｜tool▁call▁end｜>`,
      ),
    ),
};
