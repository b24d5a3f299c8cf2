/** Ways in which models write tool calls, by the names that engines have for the parsers of them. */
export const callFormats = [
  'hermes',
  'qwen3_coder',
  'llama3_json',
  'mistral',
  'glm45',
  'kimi_k2',
  'deepseek_v3',
  'deepseek_v31',
] as const;
export type CallFormat = (typeof callFormats)[number];
