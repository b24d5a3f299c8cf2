import type { ToolDefinition } from '../../contracts/index.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { GeneratedTextStream } from './call-formats/generated-text-stream.ts';
import type { Spoken } from './engine.ts';

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
