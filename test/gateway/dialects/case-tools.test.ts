import { describe, expect, test } from 'vitest';
import { FakeVllm, sample, type Loose } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { asked, refusal } from './through-gateway.ts';

const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { n: { type: 'number', exclusiveMinimum: 0, default: 1 }, u: { format: 'uri' } },
  propertyNames: { pattern: '^[a-z]$' },
  additionalProperties: {},
};
const tool = (name: string, rest = {}): unknown => ({ name, input_schema: schema, ...rest });
const sent = async (tools: readonly unknown[], rest = {}): Promise<Loose> => asked('x', { tools, ...rest });
const names = (body: Loose): unknown => body.tools?.map((each: Loose) => each.function.name);

describe('tools', () => {
  test('9: a deferred tool is forwarded whole, like any other', async () => {
    expect(names(await sent([tool('Bash'), tool('Late', { defer_loading: true })]))).toEqual([
      'Bash',
      'Late',
    ]);
  });

  test('10: tools that Anthropic’s servers run are left out', async () => {
    const server = [
      'web_search_20250305',
      'web_fetch_20250910',
      'code_execution_20250825',
      'tool_search_tool_regex_20251119',
    ].map((type) => ({ type, name: type }));
    expect(names(await sent([...server, tool('Bash')]))).toEqual(['Bash']);
    const alone = await sent(server, { tool_choice: { type: 'auto' } });
    expect(alone).not.toHaveProperty('tools');
    expect(alone).not.toHaveProperty('tool_choice');
  });

  test('10: one whose schema only Anthropic’s models know is refused by name', async () => {
    expect(await refusal('x', { tools: [tool('Bash'), { type: 'bash_20250124', name: 'bash' }] })).toBe(
      'tools.1.input_schema: is missing: a tool of type bash_20250124 needs one here',
    );
    expect(await refusal('x', { tools: [{ name: 'x' }] })).toBe('tools.0.input_schema: is missing');
    expect(names(await sent([tool('bash', { type: 'bash_20250124' })]))).toEqual(['bash']);
  });

  test('11: a tool without a type is custom, a schema without a type an object’s', async () => {
    const { tools } = await sent([
      { name: 'x', input_schema: {} },
      { type: 'custom', name: 'y', input_schema: {} },
    ]);
    expect(tools.map((each: Loose) => each.function.parameters)).toEqual([
      { type: 'object' },
      { type: 'object' },
    ]);
  });

  test('12: schemas pass unchanged to the byte: the policy’s template renders them', async () => {
    const { tools } = await sent([tool('Bash')]);
    expect(JSON.stringify(tools[0].function.parameters)).toBe(JSON.stringify(schema));
  });

  test('13: keys of the API itself are stripped', async () => {
    const { tools } = await sent([
      tool('Bash', {
        description: 'Runs.',
        cache_control: { type: 'ephemeral' },
        strict: true,
        eager_input_streaming: true,
        input_examples: [{}],
        allowed_callers: ['direct'],
      }),
    ]);
    expect(tools).toEqual([
      { type: 'function', function: { name: 'Bash', description: 'Runs.', parameters: schema } },
    ]);
  });

  test('14: the choice is translated, dropped where there is no tool, and of a tool that is there', async () => {
    const choice = async (tool_choice: unknown, tools: readonly unknown[] = [tool('x')]): Promise<unknown> =>
      (await sent(tools, { tool_choice })).tool_choice as unknown;
    expect(await choice(undefined)).toBe('auto');
    expect(await choice({ type: 'auto' })).toBe('auto');
    expect(await choice({ type: 'any' })).toBe('required');
    expect(await choice({ type: 'none' })).toBe('none');
    expect(await choice({ type: 'tool', name: 'x' })).toEqual({ type: 'function', function: { name: 'x' } });
    expect(await choice({ type: 'any' }, [])).toBeUndefined();
    const wrong = { tools: [tool('x')], tool_choice: { type: 'tool', name: 'y' } };
    expect(await refusal('x', wrong)).toBe('tool_choice.name: names no tool of this request: "y"');
    expect(await refusal('x', { tools: [tool('x')], tool_choice: { type: 'some' } })).toMatch(
      /^tool_choice\.type: /,
    );
  });

  test('14: a forced choice is recorded, because it is sampled from another distribution', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await messages(opened.session, 'a', { tools: [tool('x')], tool_choice: { type: 'any' } });
    await messages(opened.session, 'b', { tools: [tool('x')], tool_choice: { type: 'auto' } });
    expect((await opened.session.finish()).map(({ notes }) => notes)).toEqual([['guided_decoding'], []]);
  });

  test('15: disable_parallel_tool_use reaches the policy', async () => {
    const parallel = async (tool_choice: unknown): Promise<unknown> =>
      (await sent([tool('x')], { tool_choice })).parallel_tool_calls as unknown;
    expect(await parallel({ type: 'auto', disable_parallel_tool_use: true })).toBe(false);
    expect(await parallel({ type: 'any', disable_parallel_tool_use: true })).toBe(false);
    expect(await parallel({ type: 'auto', disable_parallel_tool_use: false })).toBeUndefined();
  });

  test('34: names longer than 64 characters, or with dots, pass unchanged in both directions', async () => {
    const name = `mcp.server__${'x'.repeat(80)}`;
    await using vllm = await FakeVllm.start(sample({ tools: [{ name, arguments: '{}' }] }));
    await using opened = await openGateway(vllm.url);
    const response = await messages(opened.session, 'x', { tools: [tool(name)] });
    expect(await response.json()).toMatchObject({ content: [{ type: 'tool_use', name }] });
    expect(names(vllm.bodies[0])).toEqual([name]);
  });

  test('a schema too deep for the policy’s own reader is refused by its field', async () => {
    let deep: unknown = {};
    for (let level = 0; level < 300; level++) deep = { items: deep };
    expect(await refusal('x', { tools: [{ name: 'x', input_schema: deep }] })).toMatch(
      /^tools\.0\.input_schema: is nested more than 256 levels deep/,
    );
  });
});
