import { expect, it } from 'vitest';
import { Toolbox } from '../../../src/agents/tool-loop/toolbox.ts';
import { Notebook } from './notebook.ts';

it('a call of a tool that is not there is answered in few words, however many there are and however long its name', async () => {
  const tools = Array.from({ length: 5_000 }, (_, index) => ({
    type: 'function' as const,
    function: { name: `tool_${index}`, parameters: {} },
  }));
  const options = { timeoutMs: 1_000, signal: new AbortController().signal };
  const toolbox = new Toolbox(new Notebook(), tools, 'p', options);
  const used = await toolbox.call({ id: 'c', name: 'x'.repeat(100_000), args: {} });
  if (!('result' in used)) throw new Error('it was taken for an answer');
  expect(used).toMatchObject({ valid: false, result: { is_error: true } });
  expect(used.result.text).toMatch(/^there is no tool "xxx.*tool_0, tool_1, .* and 4900 more$/);
  expect(used.result.text.length).toBeLessThan(2_000);
});
