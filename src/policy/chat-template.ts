import { messageReasoning, messageText, type RequestMessage, type RequestTool } from './chat-request.ts';
import { PrefixHash } from './hashing.ts';
import { PythonJsonError, pythonDumps, pythonLoads } from './python-json.ts';
import { badRequest } from './refusal.ts';
import { endOfTurn, specialId, type SpecialName } from './special-tokens.ts';
import { encodeText } from './tokenizer.ts';
import type { TurnMemory } from './turn-memory.ts';

/**
 * `plain` keeps every sampled turn's ids in the next prompt. `hostile` does what widespread templates do to history:
 * tool arguments are parsed and dumped again (invalid JSON is refused), thinking before the last user message is
 * dropped, turns are tokenised anew from text, and a system message is only taken in front.
 */
export type TemplateName = 'plain' | 'hostile';

/**
 * How calls are written between their markers: the name on a `line` of its own and the arguments as they stand behind it, or
 * one JSON object with both (`hermes`), as many models do.
 */
export type CallFormat = 'line' | 'hermes';

/** A piece of a rendered turn: plain text, or a special token. */
export type TurnPart = string | number;

export interface TurnContent {
  readonly reasoning: string;
  readonly content: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
}

const special = {
  start: specialId('<|im_start|>'),
  think: specialId('<think>'),
  thinkEnd: specialId('</think>'),
  call: specialId('<tool_call>'),
  callEnd: specialId('</tool_call>'),
};

function callText({ name, arguments: given }: TurnContent['calls'][number], format: CallFormat): string {
  if (format === 'line') return `${name}\n${given}`;
  return `\n{"name": ${pythonDumps(name)}, "arguments": ${given === '' ? '{}' : given}}\n`;
}

/** An assistant turn as the policy writes it, its end token not included. */
export function turnParts(turn: TurnContent, format: CallFormat): TurnPart[] {
  const parts: TurnPart[] = [];
  if (turn.reasoning !== '') parts.push(special.think, turn.reasoning, special.thinkEnd);
  if (turn.content !== '') parts.push(turn.content);
  for (const call of turn.calls) parts.push(special.call, callText(call, format), special.callEnd);
  return parts;
}

/**
 * Names a delivered message in the turn memory. The ids of its tool calls, where they are given, tell it from another
 * sample that had the same prompt and wrote the same text with other tokens.
 */
export function turnKey(turn: TurnContent, callIds: readonly string[] = []): string {
  return JSON.stringify([
    turn.reasoning,
    turn.content,
    turn.calls.map((call) => [call.name, call.arguments]),
    callIds,
  ]);
}

export function turnOf(message: RequestMessage): TurnContent {
  return {
    reasoning: messageReasoning(message),
    content: messageText(message),
    calls: (message.tool_calls ?? []).map((call) => ({
      name: call.function.name,
      arguments: call.function.arguments,
    })),
  };
}

// Most of a prompt is the same text again and again: the system prompt, the tools, the turns so far.
const cachedTextLimit = 2048;
const encoded = new Map<string, number[]>();

function encodeCached(text: string): number[] {
  if (text.length < 16) return encodeText(text);
  let ids = encoded.get(text);
  if (ids === undefined) {
    ids = encodeText(text);
    if (encoded.size >= cachedTextLimit) encoded.clear();
    encoded.set(text, ids);
  }
  return ids;
}

class Prompt {
  readonly ids: number[] = [];
  readonly #hash = new PrefixHash();

  special(name: SpecialName): this {
    return this.tokens([specialId(name)]);
  }

  text(text: string): this {
    return this.tokens(encodeCached(text));
  }

  tokens(ids: ArrayLike<number>): this {
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] ?? 0;
      this.ids.push(id);
      this.#hash.add(id);
    }
    return this;
  }

  prefix(): string {
    return this.#hash.toString();
  }
}

export interface RenderedPrompt {
  readonly ids: Int32Array;
  /** Names the prompt in the turn memory. */
  readonly prefix: string;
}

const toolsIntroduction = `# Tools

You may call one or more functions to help with the user's request. Their signatures, one JSON object a line, stand between the tags:
`;
const toolsInstruction = `
For each call write the function's name, a line break and its arguments as a JSON object between tool_call tags.`;
const hermesInstruction = `
For each call write a JSON object with the function's name and its arguments between tool_call tags:
`;
const hermesExample = '\n{"name": <function-name>, "arguments": <args-json-object>}\n';

function renderSystem(
  prompt: Prompt,
  system: string,
  tools: readonly RequestTool[],
  format: CallFormat,
): void {
  if (system === '' && tools.length === 0) return;
  prompt.special('<|im_start|>').text('system\n');
  if (system !== '') prompt.text(system);
  if (tools.length > 0) {
    if (system !== '') prompt.text('\n\n');
    prompt.text(toolsIntroduction).special('<tools>');
    for (const tool of tools) prompt.text(`\n${pythonDumps(tool)}`);
    prompt.text('\n').special('</tools>');
    if (format === 'line') prompt.text(toolsInstruction);
    else prompt.text(hermesInstruction).special('<tool_call>').text(hermesExample).special('</tool_call>');
  }
  prompt.special('<|im_end|>').text('\n');
}

function hostileTurn(turn: TurnContent, keepThinking: boolean): TurnContent {
  return {
    reasoning: keepThinking ? turn.reasoning : '',
    content: turn.content,
    calls: turn.calls.map((call) => {
      if (call.arguments === '') return { name: call.name, arguments: '{}' };
      try {
        return { name: call.name, arguments: pythonDumps(pythonLoads(call.arguments)) };
      } catch (error) {
        if (error instanceof PythonJsonError) throw badRequest(error.message);
        throw error;
      }
    }),
  };
}

export interface RenderOptions {
  readonly template: TemplateName;
  readonly memory: TurnMemory;
  readonly callFormat: CallFormat;
  /** Default: true. */
  readonly addGenerationPrompt?: boolean;
}

/** Renders a conversation to prompt ids. Throws `Refusal` for what the template does not take. */
export function renderPrompt(
  messages: readonly RequestMessage[],
  tools: readonly RequestTool[],
  options: RenderOptions,
): RenderedPrompt {
  const prompt = new Prompt();
  const hostile = options.template === 'hostile';
  const isSystem = (message: RequestMessage | undefined): boolean =>
    message?.role === 'system' || message?.role === 'developer';
  const [first] = messages;
  const leading = first !== undefined && isSystem(first);
  renderSystem(prompt, leading ? messageText(first) : '', tools, options.callFormat);

  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  messages.forEach((message, index) => {
    if (index === 0 && leading) return;
    if (isSystem(message)) {
      if (hostile) throw badRequest('System message must be at the beginning.');
      prompt
        .special('<|im_start|>')
        .text('system\n')
        .text(messageText(message))
        .special('<|im_end|>')
        .text('\n');
    } else if (message.role === 'user') {
      prompt
        .special('<|im_start|>')
        .text('user\n')
        .text(messageText(message))
        .special('<|im_end|>')
        .text('\n');
    } else if (message.role === 'tool') {
      prompt.special('<|im_start|>').text('tool\n').special('<tool_response>').text(messageText(message));
      prompt.special('</tool_response>').special('<|im_end|>').text('\n');
    } else if (message.role === 'assistant') {
      renderAssistant(prompt, message, options, hostile ? index > lastUser : null);
    } else {
      throw badRequest('Unexpected message role.');
    }
  });
  if (options.addGenerationPrompt ?? true) prompt.special('<|im_start|>').text('assistant\n');
  return { ids: Int32Array.from(prompt.ids), prefix: prompt.prefix() };
}

/** The ids sampled for this very message; without its call ids, for the latest with its text. */
function recall(
  prefix: string,
  message: RequestMessage,
  turn: TurnContent,
  memory: TurnMemory,
): Int32Array | undefined {
  const ids = (message.tool_calls ?? []).map(({ id }) => id ?? '');
  return memory.recall(prefix, turnKey(turn, ids)) ?? memory.recall(prefix, turnKey(turn));
}

/** `keepThinking` null: the plain template. */
function renderAssistant(
  prompt: Prompt,
  message: RequestMessage,
  { memory, callFormat }: RenderOptions,
  keepThinking: boolean | null,
): void {
  const turn = turnOf(message);
  prompt.special('<|im_start|>').text('assistant\n');
  const sampled = keepThinking === null ? recall(prompt.prefix(), message, turn, memory) : undefined;
  if (sampled !== undefined) {
    prompt.tokens(sampled);
    // A turn cut short has no end token of its own.
    if (sampled.at(-1) !== endOfTurn) prompt.tokens([endOfTurn]);
  } else {
    const rendered = keepThinking === null ? turn : hostileTurn(turn, keepThinking);
    for (const part of turnParts(rendered, callFormat)) {
      if (typeof part === 'number') prompt.tokens([part]);
      else prompt.text(part);
    }
    prompt.tokens([endOfTurn]);
  }
  prompt.text('\n');
}
