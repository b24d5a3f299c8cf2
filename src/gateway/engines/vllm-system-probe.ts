import type { Replica } from '../policy/replica.ts';
import { EngineError } from './engine-error.ts';
import { replyFault } from './engine-faults.ts';

/** An object of a sound answer's JSON. Anything else is the policy's failure of the moment, not its word on templates. */
function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (value !== null && typeof value === 'object') return value as Record<string, unknown>;
  } catch {
    // No JSON.
  }
  throw new EngineError('busy', 'the policy answered something that is no JSON', { status: 200 });
}

const lead = { role: 'user', content: 'Hello.' };
const inline = { role: 'system', content: 'Note: a file changed on disk.' };

/** Token ids of rendered messages; null when refused; undefined when the engine has no `/tokenize`. */
async function render(
  replica: Replica,
  model: string,
  messages: readonly unknown[],
  signal: AbortSignal,
): Promise<readonly unknown[] | null | undefined> {
  const body = JSON.stringify({ model, messages, add_generation_prompt: false });
  const reply = await replica.request('POST', '/tokenize', body, signal);
  if (reply.status === 404 || reply.status === 405 || reply.status === 501) return undefined;
  if (reply.status === 429 || reply.status === 503) throw replyFault(reply);
  if (reply.status !== 200) return null;
  const { tokens } = fieldsOf(reply.text);
  return Array.isArray(tokens) ? tokens : undefined;
}

/** Prompt tokens of a call that samples one token; null when the messages are refused. */
async function promptTokens(
  replica: Replica,
  model: string,
  messages: readonly unknown[],
  signal: AbortSignal,
): Promise<number | null> {
  const body = JSON.stringify({ model, messages, max_tokens: 1, temperature: 1 });
  const reply = await replica.request('POST', '/v1/chat/completions', body, signal);
  if (reply.status === 429 || reply.status === 503) throw replyFault(reply);
  if (reply.status !== 200) return null;
  const usage = fieldsOf(reply.text)['usage'] as { readonly prompt_tokens?: unknown } | null | undefined;
  return typeof usage?.prompt_tokens === 'number' ? usage.prompt_tokens : null;
}

/**
 * Whether the model's template takes a system message behind a user's and leaves it there. Templates raise (Qwen),
 * drop it, or move it to the head; only where the prompt without it is a true prefix of the prompt with it does it
 * stay in place. Rejects with EngineError when the policy is out of reach or busy.
 */
export async function probeSystemInPlace(
  replica: Replica,
  model: string,
  signal: AbortSignal,
): Promise<boolean> {
  const without = await render(replica, model, [lead], signal);
  // Refused even without: an engine whose `/tokenize` takes no messages, as SGLang's.
  if (without !== undefined && without !== null) {
    const withInline = await render(replica, model, [lead, inline], signal);
    if (!withInline || withInline.length <= without.length) return false;
    return without.every((token, at) => token === withInline[at]);
  }
  const bare = await promptTokens(replica, model, [lead], signal);
  const full = await promptTokens(replica, model, [lead, inline], signal);
  return bare !== null && full !== null && full > bare;
}
