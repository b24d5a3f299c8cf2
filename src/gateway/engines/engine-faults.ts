import type { ReplicaReply } from '../policy/whole-reply.ts';
import { EngineError } from './engine-error.ts';

/**
 * The ways to say that a request does not fit, with the numbers of limit and prompt. vLLM's (facts: token capture 1.6):
 * newer, older, and the two of the engine's own checks. Then SGLang's two, of its tokenizer manager.
 */
const overflowTexts: readonly {
  readonly pattern: RegExp;
  readonly limit: number;
  readonly prompt: number;
}[] = [
  {
    pattern: /maximum context length is (\d+) tokens and your request has (\d+) input tokens/,
    limit: 1,
    prompt: 2,
  },
  {
    pattern:
      /maximum context length is (\d+) tokens\. However, you requested \d+ tokens \((\d+) in the messages/,
    limit: 1,
    prompt: 2,
  },
  {
    pattern:
      /maximum context length is (\d+) tokens\. However, your (?:request has|prompt contains)(?: at least)? (\d+) input tokens/,
    limit: 1,
    prompt: 2,
  },
  { pattern: /maximum context length is (\d+) tokens.*?(\d+) input tokens/s, limit: 1, prompt: 2 },
  {
    pattern: /decoder prompt \(length (\d+)\) is longer than the maximum model length of (\d+)/,
    limit: 2,
    prompt: 1,
  },
  {
    pattern: /maximum context length of (\d+) tokens\..*?: (\d+) tokens from the input messages/s,
    limit: 1,
    prompt: 2,
  },
  {
    pattern: /input \((\d+) tokens\) is longer than the model's context length \((\d+) tokens\)/,
    limit: 2,
    prompt: 1,
  },
];

/** The engine's own words out of an error body: `{"error":{"message"}}`, `{"message"}`, `{"detail"}` or plain text. */
export function errorMessage(body: string): string {
  try {
    const parsed = JSON.parse(body) as {
      error?: { message?: unknown } | string;
      message?: unknown;
      detail?: unknown;
    } | null;
    const found =
      typeof parsed?.error === 'object'
        ? parsed.error.message
        : (parsed?.error ?? parsed?.message ?? parsed?.detail);
    if (typeof found === 'string') return found;
    if (found !== undefined) return JSON.stringify(found);
  } catch {
    // Not JSON: a proxy's page, or plain text.
  }
  return body.slice(0, 500);
}

function retryAfterMs(reply: ReplicaReply): number | undefined {
  const header = reply.headers['retry-after'];
  if (typeof header !== 'string') return undefined;
  const seconds = /^\d+(\.\d+)?$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

/** What an answer that is not 200 means. */
export function replyFault(reply: ReplicaReply): EngineError {
  const { status } = reply;
  const words = errorMessage(reply.text);
  const message = `the policy answered HTTP ${status}: ${words}`;
  if (status === 429 || status === 408 || status >= 500) {
    return new EngineError('busy', message, { status, retryAfterMs: retryAfterMs(reply) });
  }
  if (status === 400 || status === 413 || status === 422) {
    for (const { pattern, limit, prompt } of overflowTexts) {
      const match = pattern.exec(words);
      if (match !== null) {
        const tokens = { prompt: Number(match[prompt]), limit: Number(match[limit]) };
        return new EngineError('overflow', message, { status, tokens });
      }
    }
    return new EngineError('rejected', message, { status });
  }
  return new EngineError(status < 300 ? 'busy' : 'misconfigured', message, { status });
}
