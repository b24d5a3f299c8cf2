/** The parts that requests of the Anthropic API are made of, for tests. */
export const user = (content: unknown): unknown => ({ role: 'user', content });
export const assistant = (content: unknown): unknown => ({ role: 'assistant', content });
export const text = (value: string): unknown => ({ type: 'text', text: value });
export const use = (id: string, input: unknown = {}, name = 'Bash'): unknown => ({
  type: 'tool_use',
  id,
  name,
  input,
});
export const result = (id: string, content?: unknown, rest = {}): unknown => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...rest,
});
export const png = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } };
export const pngPart = { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } };
