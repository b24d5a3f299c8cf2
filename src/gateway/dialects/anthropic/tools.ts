import type { ToolDefinition } from '../../../contracts/index.ts';
import type { ChatRequest } from '../../chat.ts';
import {
  asList,
  asObject,
  asString,
  badField,
  refuseDeepNesting,
  refuseUnknownTool,
  type Json,
} from '../field.ts';

/** Tools that Anthropic's servers run: nobody runs them here, so the policy is not told of them (case 10). */
const serverTool = /^(web_search|web_fetch|code_execution|tool_search|mcp_toolset|advisor)/;

/** The schema as it came, because it is rendered into the prompt; only a missing `type` is filled in (cases 11, 12). */
function parameters(schema: Json): Json {
  return schema['type'] === undefined ? { type: 'object', ...schema } : schema;
}

export function toolDefinitions(value: unknown): readonly ToolDefinition[] {
  if (value === undefined || value === null) return [];
  return asList(value, 'tools').flatMap((each, at) => {
    const path = `tools.${at}`;
    const tool = asObject(each, path);
    const type = tool['type'];
    if (tool['input_schema'] === undefined) {
      if (typeof type === 'string' && serverTool.test(type)) return [];
      // A schema known to Anthropic's models alone (bash_20250124, computer_...): the policy would have to guess it.
      const whose =
        typeof type === 'string' && type !== 'custom' ? `: a tool of type ${type} needs one here` : '';
      throw badField(`${path}.input_schema`, `is missing${whose}`);
    }
    const schema = asObject(tool['input_schema'], `${path}.input_schema`);
    refuseDeepNesting(schema, `${path}.input_schema`);
    const description = tool['description'];
    return [
      {
        type: 'function' as const,
        function: {
          name: asString(tool['name'], `${path}.name`),
          ...(typeof description === 'string' ? { description } : {}),
          parameters: parameters(schema),
        },
      },
    ];
  });
}

/** Cases 14 and 15; without tools there is nothing to choose. */
export function toolChoice(
  value: unknown,
  tools: readonly ToolDefinition[],
): Pick<ChatRequest, 'tool_choice' | 'parallel_tool_calls'> {
  if (value === undefined || value === null) return {};
  const choice = asObject(value, 'tool_choice');
  const parallel = choice['disable_parallel_tool_use'] === true ? { parallel_tool_calls: false } : {};
  switch (choice['type']) {
    case 'auto':
      return { tool_choice: 'auto', ...parallel };
    case 'any':
      return { tool_choice: 'required', ...parallel };
    case 'none':
      return { tool_choice: 'none' };
    case 'tool': {
      const name = asString(choice['name'], 'tool_choice.name');
      refuseUnknownTool(name, tools, 'tool_choice.name');
      return { tool_choice: { type: 'function', function: { name } }, ...parallel };
    }
    default:
      throw badField('tool_choice.type', 'must be auto, any, tool or none');
  }
}
