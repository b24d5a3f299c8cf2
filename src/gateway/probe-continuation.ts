import { resolveSampling, type CallFormat, type ChatMessage } from '../contracts/index.ts';
import { formatOfRendering } from './engines/call-formats/format-of-rendering.ts';
import { createEngine, type EngineKind } from './engines/create-engine.ts';
import { EngineError } from './engines/engine-error.ts';
import { textOfIds } from './engines/text-of-ids.ts';
import { backoffMs, pause } from './policy/backoff.ts';
import type { Replica } from './policy/replica.ts';

export interface ContinuationProbe {
  /** How the model's template writes tool calls; null where that is not known. */
  readonly call_format: CallFormat | null;
  /** Whether the engine renders prompts to ids, and samples after ids with ids and logprobs. */
  readonly continues: boolean;
}

const nothing: ContinuationProbe = { call_format: null, continues: false };

const question: ChatMessage = { role: 'user', content: 'Look around.' };
const id = 'look00001';
const called: readonly ChatMessage[] = [
  question,
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: '{"at": "here"}' } }],
  },
  { role: 'tool', tool_call_id: id, content: 'A room.' },
];

const upstreamId = (same: string): string => same;

/** Times that a busy engine is asked. */
const tries = 3;

/**
 * Whether conversations can go on from ids: how the template writes a tool call is read off a rendered one, and one token is
 * sampled after rendered ids. Whatever the engine refuses or does not have is a no. Rejects with EngineError when
 * it is out of reach.
 */
export async function probeContinuation(
  replica: Replica,
  kind: EngineKind,
  model: string,
  signal: AbortSignal,
): Promise<ContinuationProbe> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask(replica, kind, model, signal);
    } catch (error) {
      if (!(error instanceof EngineError) || error.fault === 'unreachable') throw error;
      if (error.fault !== 'busy' || attempt + 1 === tries) return nothing;
      await pause(error.retryAfterMs ?? backoffMs(attempt), signal);
    }
  }
}

async function ask(
  replica: Replica,
  kind: EngineKind,
  model: string,
  signal: AbortSignal,
): Promise<ContinuationProbe> {
  const engine = createEngine(kind, { model, systemInPlace: false, callFormat: 'hermes' });
  const prompt = await engine.render(replica, { messages: [question], upstreamId }, signal);
  if (prompt === null || prompt.length === 0) return nothing;
  const sampled = await engine.complete(
    replica,
    {
      messages: [],
      sampling: resolveSampling(),
      seed: null,
      max_tokens: 1,
      upstreamId,
      prompt_token_ids: prompt,
    },
    signal,
  );
  const continues =
    sampled.reasons.length === 0 &&
    sampled.token_ids !== null &&
    sampled.logprobs?.length === sampled.token_ids.length &&
    sampled.usage?.prompt_tokens === prompt.length;
  if (!continues) return nothing;
  const turn = await engine.render(replica, { messages: called, upstreamId }, signal);
  const written = turn === null ? null : await textOfIds(replica, model, turn, signal);
  return { call_format: written === null ? null : formatOfRendering(written), continues };
}
