import type { ToolDefinition } from '../../contracts/index.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { GeneratedTextStream } from './call-formats/generated-text-stream.ts';
import { contentOf } from './completion-parts.ts';
import type { EngineAnswer, EngineRequest, Spoken } from './engine.ts';

/**
 * What a sampled text says, read as the engine's tool parser of that name and a reasoning parser read it: for answers of
 * routes that parse nothing. Where the format carries JSON an argument string is the sampled text. A call that is
 * cut, or that cannot be read, stays text with its markup. `thinking`: whether the prompt ends in opened thinking;
 * unknown by default.
 */
export function parseGeneratedText(
  text: string,
  tools: readonly ToolDefinition[] | undefined,
  format: CallFormat,
  thinking?: boolean,
): Spoken {
  const stream = new GeneratedTextStream({ tools, format, thinking });
  stream.push(text);
  return stream.end().spoken;
}

/** A read text in the words of the chat routes, which parse: an end with calls is `tool_calls`, and no second call where one was asked for. */
export function asChatSaysIt(
  { reasoning, content, tool_calls }: Spoken,
  { parallel_tool_calls }: Pick<EngineRequest, 'parallel_tool_calls'>,
  finish: string | null,
): Pick<EngineAnswer, 'reasoning' | 'content' | 'tool_calls' | 'finish_reason'> {
  const calls = parallel_tool_calls === false ? tool_calls.slice(0, 1) : tool_calls;
  return {
    reasoning,
    content: contentOf(content, calls),
    tool_calls: calls,
    finish_reason: finish === 'stop' && calls.length > 0 ? 'tool_calls' : finish,
  };
}
