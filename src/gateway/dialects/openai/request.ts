import type {
  AssistantMessage,
  ChatMessage,
  ContentPart,
  ToolCall,
  ToolDefinition,
} from '../../../contracts/index.ts';
import type { ChatRequest, ToolChoice } from '../../chat.ts';
import type { DialectCall } from '../dialect.ts';
import {
  asList,
  asObject,
  asString,
  badField,
  optionalCount,
  optionalStops,
  refuseDeepNesting,
  refuseUnknownTool,
} from '../field.ts';
import { pairToolResults } from '../pairing.ts';

/** Text out of a string, text parts, or nothing. */
function textOf(content: unknown, path: string): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  return asList(content, path)
    .map((part, at) => {
      const { type, text, refusal } = asObject(part, `${path}.${at}`);
      if (type === 'refusal') return asString(refusal, `${path}.${at}.refusal`);
      if (type !== 'text') throw badField(`${path}.${at}.type`, 'must be text here');
      return asString(text, `${path}.${at}.text`);
    })
    .join('\n');
}

function userContent(content: unknown, path: string): string | readonly ContentPart[] {
  if (typeof content === 'string') return content;
  const parts = asList(content, path).map((each, at): ContentPart => {
    const here = `${path}.${at}`;
    const part = asObject(each, here);
    if (part['type'] === 'text') return { type: 'text', text: asString(part['text'], `${here}.text`) };
    if (part['type'] !== 'image_url') throw badField(`${here}.type`, 'must be text or image_url');
    const image = asObject(part['image_url'], `${here}.image_url`);
    const url = asString(image['url'], `${here}.image_url.url`);
    if (!url.startsWith('data:')) {
      throw badField(`${here}.image_url.url`, 'must be a data: URI, other URLs are not fetched');
    }
    return { type: 'image_url', image_url: { url } };
  });
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  return texts.length === parts.length ? texts.join('\n') : parts;
}

function assistantOf(message: Readonly<Record<string, unknown>>, path: string): AssistantMessage {
  const given = message['tool_calls'];
  const calls =
    given === undefined || given === null
      ? []
      : asList(given, `${path}.tool_calls`).map((each, at): ToolCall => {
          const here = `${path}.tool_calls.${at}`;
          const call = asObject(each, here);
          const called = asObject(call['function'], `${here}.function`);
          return {
            id: asString(call['id'], `${here}.id`),
            type: 'function',
            function: {
              name: asString(called['name'], `${here}.function.name`),
              arguments: asString(called['arguments'] ?? '', `${here}.function.arguments`),
            },
          };
        });
  const reasoning = message['reasoning'] ?? message['reasoning_content'];
  const text = textOf(message['content'], `${path}.content`);
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(typeof reasoning === 'string' && reasoning !== '' ? { reasoning } : {}),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function messageOf(each: unknown, path: string): ChatMessage {
  const message = asObject(each, path);
  const content = message['content'];
  switch (message['role']) {
    case 'system':
    case 'developer':
      return { role: 'system', content: textOf(content, `${path}.content`) };
    case 'user':
      return { role: 'user', content: userContent(content, `${path}.content`) };
    case 'assistant':
      return assistantOf(message, path);
    case 'tool':
      return {
        role: 'tool',
        tool_call_id: asString(message['tool_call_id'], `${path}.tool_call_id`),
        content: textOf(content, `${path}.content`),
      };
    default:
      throw badField(`${path}.role`, 'must be system, developer, user, assistant or tool');
  }
}

function toolsOf(value: unknown): readonly ToolDefinition[] {
  if (value === undefined || value === null) return [];
  return asList(value, 'tools').map((each, at) => {
    const tool = asObject(each, `tools.${at}`);
    if (tool['type'] !== 'function') throw badField(`tools.${at}.type`, 'must be function');
    const called = asObject(tool['function'], `tools.${at}.function`);
    const description = called['description'];
    refuseDeepNesting(called['parameters'], `tools.${at}.function.parameters`);
    return {
      type: 'function',
      function: {
        name: asString(called['name'], `tools.${at}.function.name`),
        ...(typeof description === 'string' ? { description } : {}),
        parameters: called['parameters'] ?? { type: 'object', properties: {} },
      },
    };
  });
}

function toolChoiceOf(value: unknown, tools: readonly ToolDefinition[]): ToolChoice | undefined {
  if (value === undefined || value === null || tools.length === 0) return undefined;
  if (value === 'auto' || value === 'none' || value === 'required') return value;
  if (typeof value === 'string') throw badField('tool_choice', 'must be auto, none, required or a function');
  const called = asObject(asObject(value, 'tool_choice')['function'], 'tool_choice.function');
  const name = asString(called['name'], 'tool_choice.function.name');
  refuseUnknownTool(name, tools, 'tool_choice.function.name');
  return { type: 'function', function: { name } };
}

/** An OpenAI chat completion request in the middle form. What is not named here is taken and ignored. */
export function parseChatRequest(body: unknown): DialectCall {
  const root = asObject(body, 'body');
  const messages = asList(root['messages'], 'messages').map((each, at) => messageOf(each, `messages.${at}`));
  if (messages.length === 0) throw badField('messages', 'must not be empty');
  if (root['n'] !== undefined && root['n'] !== null && root['n'] !== 1) {
    throw badField('n', 'must be 1: every call is one sample of the episode');
  }
  const tools = toolsOf(root['tools']);
  const choice = toolChoiceOf(root['tool_choice'], tools);
  const stop = optionalStops(root['stop'], 'stop');
  const maxTokens =
    optionalCount(root['max_completion_tokens'], 'max_completion_tokens') ??
    optionalCount(root['max_tokens'], 'max_tokens');
  const streamOptions = root['stream_options'] as { include_usage?: unknown } | null | undefined;
  const request: ChatRequest = {
    messages: pairToolResults(messages),
    ...(tools.length === 0
      ? {}
      : {
          tools,
          ...(choice === undefined ? {} : { tool_choice: choice }),
          ...(root['parallel_tool_calls'] === false ? { parallel_tool_calls: false } : {}),
        }),
    ...(stop === undefined ? {} : { stop }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  };
  return {
    request,
    stream: root['stream'] === true,
    model: root['model'] === undefined ? '' : asString(root['model'], 'model'),
    includeUsage: streamOptions?.include_usage === true,
    wants: { logprobs: root['logprobs'] === true, ids: root['return_token_ids'] === true },
  };
}
