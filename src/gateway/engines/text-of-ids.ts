import type { CallFormat } from '../../contracts/index.ts';
import type { Replica } from '../policy/replica.ts';
import { object, text } from './completion-parts.ts';
import { replyFault } from './engine-faults.ts';
import type { EngineRequest, Spoken } from './engine.ts';
import { parseGeneratedText } from './generated-text.ts';
import { parseLenientJson } from './lenient-json.ts';

/**
 * Text of ids with their special tokens, by `/detokenize`; null where the engine has no way to say. vLLM names it `prompt` and
 * always writes special tokens, SGLang `text` and has to be told. Rejects with EngineError when the engine does not
 * answer or is busy.
 */
export async function textOfIds(
  replica: Replica,
  model: string,
  ids: Int32Array,
  signal: AbortSignal,
): Promise<string | null> {
  const body = JSON.stringify({ model, tokens: Array.from(ids), skip_special_tokens: false });
  const reply = await replica.request('POST', '/detokenize', body, signal);
  if (reply.status !== 200) {
    const fault = replyFault(reply);
    if (fault.fault === 'busy') throw fault;
    return null;
  }
  try {
    const said = object(parseLenientJson(reply.text));
    return text(said?.['prompt']) ?? text(said?.['text']);
  } catch {
    return null;
  }
}

/** What sampled ids say, read as text of the format; null where the engine has no way to write them. Rejects as `textOfIds`. */
export async function rereadIds(
  replica: Replica,
  model: string,
  ids: Int32Array,
  { tools, format }: { readonly tools: EngineRequest['tools']; readonly format: CallFormat | null },
  signal: AbortSignal,
): Promise<Spoken | null> {
  if (format === null) return null;
  const text = await textOfIds(replica, model, ids, signal);
  return text === null ? null : parseGeneratedText(text, tools, format);
}
