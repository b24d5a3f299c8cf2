import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../../contracts/index.ts';
import { asList, asObject, asString, badField, type Json } from '../field.ts';
import { documentParts } from './documents.ts';

type Part = ContentPart;

/** Content as a list of blocks: a string is the same as one text block. */
function blocks(content: unknown, path: string): readonly Json[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return asList(content, path).map((block, at) => asObject(block, `${path}.${at}`));
}

/** Base64 images only: a URL would be fetched by the engine (case 35). */
function image(block: Json, path: string): Part {
  const source = asObject(block['source'], `${path}.source`);
  if (source['type'] !== 'base64') {
    throw badField(`${path}.source.type`, 'only base64 images are taken, URLs and file ids are not fetched');
  }
  const type = asString(source['media_type'], `${path}.source.media_type`);
  return {
    type: 'image_url',
    image_url: { url: `data:${type};base64,${asString(source['data'], `${path}.source.data`)}` },
  };
}

/** One user-side block as parts of a message; none for an empty text. */
function userParts(block: Json, path: string): readonly Part[] {
  switch (block['type']) {
    case 'text': {
      const text = asString(block['text'], `${path}.text`);
      return text === '' ? [] : [{ type: 'text', text }];
    }
    case 'image':
      return [image(block, path)];
    case 'document':
    case 'search_result': {
      const { text, images } = documentParts(block);
      return [{ type: 'text', text }, ...images.map((each) => image(each, `${path}.source.content`))];
    }
    // Every tool goes to the policy with its whole schema, a deferred one too: the name is enough (case 8).
    case 'tool_reference':
      return [{ type: 'text', text: `[tool: ${asString(block['tool_name'], `${path}.tool_name`)}]` }];
    default:
      throw badField(`${path}.type`, `a block of type ${JSON.stringify(block['type'])} is not taken here`);
  }
}

interface ToolResult {
  readonly message: Extract<ChatMessage, { role: 'tool' }>;
  readonly images: readonly Part[];
}

/** A tool's result: texts joined by newlines, images hoisted out and named in their place (cases 4 to 8). */
function toolResult(block: Json, path: string): ToolResult {
  const id = asString(block['tool_use_id'], `${path}.tool_use_id`);
  const content = block['content'];
  const images: Part[] = [];
  const texts: string[] = [];
  if (content !== undefined && content !== null) {
    for (const [at, each] of blocks(content, `${path}.content`).entries()) {
      for (const part of userParts(each, `${path}.content.${at}`)) {
        if (part.type === 'text') texts.push(part.text);
        else images.push(part);
      }
      if (each['type'] === 'image') texts.push('[image]');
    }
  }
  const text = texts.join('\n');
  return {
    message: {
      role: 'tool',
      tool_call_id: id,
      content: block['is_error'] === true ? `Error: ${text}` : text,
    },
    images,
  };
}

/** A user turn: its tool results first, in their order, then one user message with the rest (cases 1 and 5). */
export function userMessages(content: unknown, path: string): ChatMessage[] {
  const results: ToolResult[] = [];
  const parts: Part[] = [];
  for (const [at, block] of blocks(content, path).entries()) {
    if (block['type'] === 'tool_result') results.push(toolResult(block, `${path}.${at}`));
    else parts.push(...userParts(block, `${path}.${at}`));
  }
  const rest = [...results.flatMap(({ images }) => images), ...parts];
  const tools = results.map(({ message }) => message);
  if (rest.length === 0) return results.length > 0 ? tools : [{ role: 'user', content: '' }];
  return [...tools, { role: 'user', content: plain(rest) }];
}

/** Texts alone are one string, so that a string and one text block are the same prompt. */
function plain(parts: readonly Part[]): string | readonly Part[] {
  return parts.every((part) => part.type === 'text') ? parts.map(({ text }) => text).join('\n') : parts;
}

/**
 * JSON of a historical tool input. The CLI's own wrapping of an unparsable one is undone. An input that is no object,
 * or a very deep one, was sampled so: refusing it would end an episode for what its policy said (case 32).
 */
function toolArguments(input: unknown, path: string): string {
  if (input === undefined || input === null || input === '') return '{}';
  const unparsed = (input as Json)['__unparsedToolInput'] as Json | null | undefined;
  if (typeof unparsed?.['raw'] === 'string') return unparsed['raw'];
  try {
    return JSON.stringify(input);
  } catch {
    // What JSON.parse takes, JSON.stringify may not: it works on the stack.
    throw badField(path, 'is nested too deeply');
  }
}

/** Tools that Anthropic's servers ran, and their results: the policy has none, and said none of it (case 10). */
function ranOnServer(type: unknown): boolean {
  return type === 'server_tool_use' || type === 'mcp_tool_use' || String(type).endsWith('_tool_result');
}

/** An assistant turn; null when nothing of it is left. Redacted thinking has no text (case 25). */
export function assistantMessage(content: unknown, path: string): AssistantMessage | null {
  let text = '';
  let reasoning = '';
  const calls: ToolCall[] = [];
  for (const [at, block] of blocks(content, path).entries()) {
    const here = `${path}.${at}`;
    switch (block['type']) {
      case 'text':
        text += asString(block['text'], `${here}.text`);
        break;
      case 'thinking':
        reasoning += asString(block['thinking'], `${here}.thinking`);
        break;
      case 'tool_use':
        calls.push({
          id: asString(block['id'], `${here}.id`),
          type: 'function',
          function: {
            name: asString(block['name'], `${here}.name`),
            arguments: toolArguments(block['input'], `${here}.input`),
          },
        });
        break;
      case 'redacted_thinking':
        break;
      default:
        if (ranOnServer(block['type'])) break;
        throw badField(`${here}.type`, `a block of type ${JSON.stringify(block['type'])} is not taken here`);
    }
  }
  if (text === '' && reasoning === '' && calls.length === 0) return null;
  return {
    role: 'assistant',
    content: text === '' ? (calls.length > 0 ? null : '') : text,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}
