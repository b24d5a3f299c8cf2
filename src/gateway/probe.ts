import { Replica } from './policy/replica.ts';
import { EngineError } from './engines/engine-error.ts';
import type { EngineKind } from './engines/create-engine.ts';
import type { EngineAnswer } from './engines/engine.ts';
import { errorMessage } from './engines/engine-faults.ts';
import { readVllmStream } from './engines/read-vllm-stream.ts';
import { sglangChatAnswer } from './engines/sglang-answer.ts';
import { vllmAnswer } from './engines/vllm-answer.ts';
import { parseLenientJson } from './engines/lenient-json.ts';
import { probeSystemInPlace } from './engines/vllm-system-probe.ts';
import type { CallFormat, LogprobsMode } from '../contracts/index.ts';
import { probeContinuation, type ContinuationProbe } from './probe-continuation.ts';

export interface PolicyProbe {
  /** By the owner it gives its models, else by a route only one of them has. */
  readonly engine: EngineKind;
  /** The model that was asked: the one named, else the only one it serves. */
  readonly model: string;
  /** Names of the models it serves. */
  readonly models: readonly string[];
  /** Whether answers carry the ids of sampled tokens, and of the prompt. */
  readonly ids: boolean;
  readonly prompt_ids: boolean;
  /** Whether streamed answers carry both kinds of ids, and logprobs. SGLang's never do. */
  readonly streaming_ids: boolean;
  readonly logprobs: boolean;
  readonly logprobs_mode: LogprobsMode;
  /** Whether tools are taken with the choice left to the policy. */
  readonly tools: boolean;
  /** Whether the template keeps a system message in mid-conversation where it is. */
  readonly system_in_place: boolean;
  /** How the template writes tool calls, where conversations can go on from recorded ids; null: every prompt is text. */
  readonly call_format: CallFormat | null;
  /** Whether the engine samples after ids, and renders prompts to them. */
  readonly continues: boolean;
  /** What to start the engine with so that episodes are trainable; empty when nothing is missing. */
  readonly missing_flags: readonly string[];
}

export interface ProbeTarget {
  readonly url: string;
  readonly apiKey?: string | undefined;
  /** null: the only one it serves. */
  readonly model: string | null;
  /** Default: 60 s in all. */
  readonly signal?: AbortSignal;
}

const question = { role: 'user', content: 'Name any one letter of the alphabet.' };
const tool = {
  type: 'function',
  function: { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } },
};

/** A policy that cannot be used as it is; the message is one line for people. */
export class PolicyUnusableError extends Error {
  /** It does not answer, or only with failures of its own: it may yet come up. */
  readonly down: boolean;

  constructor(message: string, options: { cause?: unknown; down?: boolean } = {}) {
    super(message, options);
    this.name = 'PolicyUnusableError';
    this.down = options.down ?? false;
  }
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

/** Logprobs by token text of the first sampled position: the sampled one and its rivals. */
function firstPosition(text: string): Map<string, number> {
  const found = new Map<string, number>();
  const body = parseLenientJson(text) as {
    choices?: {
      logprobs?: { content?: { token: string; logprob: number; top_logprobs?: unknown[] }[] } | null;
    }[];
  };
  const entry = body.choices?.[0]?.logprobs?.content?.[0];
  if (entry === undefined) return found;
  for (const each of [entry, ...(entry.top_logprobs ?? [])] as { token?: unknown; logprob?: unknown }[]) {
    if (typeof each.token === 'string' && typeof each.logprob === 'number')
      found.set(each.token, each.logprob);
  }
  return found;
}

class Prober {
  readonly #replica: Replica;
  model = '';
  readonly #signal: AbortSignal;

  constructor(replica: Replica, signal: AbortSignal) {
    this.#replica = replica;
    this.#signal = signal;
  }

  async get(path: string): Promise<Reply> {
    return this.#replica.request('GET', path, null, this.#signal);
  }

  async chat(rest: Record<string, unknown>): Promise<Reply> {
    const body = { model: this.model, messages: [question], max_tokens: 1, stream: false, n: 1, ...rest };
    return this.#replica.request('POST', '/v1/chat/completions', JSON.stringify(body), this.#signal);
  }

  async systemInPlace(): Promise<boolean> {
    return probeSystemInPlace(this.#replica, this.model, this.#signal);
  }

  async continuation(engine: EngineKind): Promise<ContinuationProbe> {
    return probeContinuation(this.#replica, engine, this.model, this.#signal);
  }

  /** The same prompt and token at two temperatures: raw logprobs do not change, processed ones do. */
  async logprobsMode(): Promise<LogprobsMode> {
    for (let tries = 0; tries < 4; tries++) {
      const [cold, warm] = await Promise.all(
        [1, 2].map((temperature) =>
          this.chat({ temperature, top_p: 1, top_k: -1, logprobs: true, top_logprobs: 5 }),
        ),
      );
      if (cold?.status !== 200 || warm?.status !== 200) return 'unknown';
      const at2 = firstPosition(warm.text);
      for (const [token, logprob] of firstPosition(cold.text)) {
        const other = at2.get(token);
        // A token that is nearly certain says nothing: its logprob is about 0 at any temperature.
        if (other === undefined || logprob > -1e-3 || logprob < -100) continue;
        return Math.abs(other - logprob) < 1e-4 ? 'raw' : 'processed';
      }
    }
    return 'unknown';
  }
}

async function engineName(prober: Prober, owner: unknown): Promise<PolicyProbe['engine']> {
  if (owner === 'vllm' || owner === 'sglang') return owner;
  const version = await prober.get('/version');
  if (version.status === 200 && version.text.includes('"version"')) return 'vllm';
  for (const path of ['/get_model_info', '/model_info']) {
    if ((await prober.get(path)).status === 200) return 'sglang';
  }
  return 'unknown';
}

type Captured = Pick<PolicyProbe, 'ids' | 'prompt_ids' | 'logprobs'>;

function has(answer: EngineAnswer | null): Captured {
  return {
    ids: (answer?.token_ids?.length ?? 0) > 0,
    prompt_ids: (answer?.prompt_token_ids?.length ?? 0) > 0,
    logprobs: (answer?.logprobs?.length ?? 0) > 0,
  };
}

const everything = { temperature: 1, logprobs: true, top_logprobs: 0, return_token_ids: true };

/** What an answer to a tiny call with everything asked for has. */
async function capture(prober: Prober, sglang: boolean): Promise<Captured> {
  const reply = await prober.chat(
    sglang ? { ...everything, return_prompt_token_ids: true, return_meta_info: true } : everything,
  );
  if (reply.status !== 200) {
    throw new PolicyUnusableError(
      `the policy refused a plain call: HTTP ${reply.status}: ${errorMessage(reply.text)}`,
      { down: reply.status >= 500 },
    );
  }
  const body = parseLenientJson(reply.text);
  return has(sglang ? sglangChatAnswer(body) : vllmAnswer(body));
}

/** Whether a streamed answer to the same call has as much. */
async function streamsIds(prober: Prober): Promise<boolean> {
  const reply = await prober.chat({ ...everything, stream: true });
  if (reply.status !== 200) return false;
  try {
    const { ids, prompt_ids, logprobs } = has(await readVllmStream([Buffer.from(reply.text)], undefined));
    return ids && prompt_ids && logprobs;
  } catch {
    return false;
  }
}

/** SGLang takes tools without a parser for calls too, and then gives them as text: its server info tells. */
async function parsesCalls(prober: Prober): Promise<boolean> {
  for (const path of ['/get_server_info', '/server_info']) {
    const info = await prober.get(path);
    if (info.status !== 200) continue;
    try {
      const { tool_call_parser: parser } = JSON.parse(info.text) as { tool_call_parser?: unknown };
      return parser !== null;
    } catch {
      continue;
    }
  }
  return true;
}

function missingSglangFlags(found: Omit<PolicyProbe, 'missing_flags'>): string[] {
  const flags: string[] = [];
  if (!found.ids || !found.prompt_ids) flags.push('SGLang 0.5.13 or newer (return_token_ids)');
  if (found.logprobs_mode === 'raw') flags.push('SGLANG_RETURN_ORIGINAL_LOGPROB=0');
  if (!found.tools) flags.push('--tool-call-parser <name>');
  return flags;
}

function missingFlags(found: Omit<PolicyProbe, 'missing_flags'>): string[] {
  if (found.engine === 'sglang') return missingSglangFlags(found);
  const flags: string[] = [];
  if (!found.ids) flags.push('--return-tokens-as-token-ids (or vLLM 0.10.2 and newer, for return_token_ids)');
  if (found.ids && !found.prompt_ids) flags.push('vLLM 0.10.2 or newer (prompt_token_ids)');
  if (!found.logprobs) flags.push('--max-logprobs 20');
  if (found.logprobs_mode === 'raw') flags.push('--logprobs-mode processed_logprobs');
  if (!found.tools) flags.push('--enable-auto-tool-choice --tool-call-parser <name>');
  return flags;
}

/**
 * What a policy can do, by asking it. Rejects with one clear error when it does not answer, refuses the key, or
 * refuses a plain call for a model it does serve.
 */
export async function probePolicy(target: ProbeTarget): Promise<PolicyProbe> {
  const replica = new Replica(target.url, target.apiKey);
  const prober = new Prober(replica, target.signal ?? AbortSignal.timeout(60_000));
  try {
    const list = await prober.get('/v1/models');
    if (list.status === 401 || list.status === 403) {
      throw new PolicyUnusableError(
        `the policy at ${replica.name} refuses the API key (HTTP ${list.status})`,
      );
    }
    if (list.status !== 200) {
      throw new PolicyUnusableError(
        `the policy at ${replica.name} has no model list (HTTP ${list.status}): is it an OpenAI-compatible server?`,
        { down: list.status >= 500 },
      );
    }
    const { data = [] } = JSON.parse(list.text) as { data?: { id: string; owned_by?: unknown }[] };
    const models = data.map(({ id }) => id);
    const engine = await engineName(prober, data[0]?.owned_by);
    const model = target.model ?? (models.length === 1 ? models[0] : undefined);
    if (model === undefined || !models.includes(model)) {
      const serves = `it serves ${models.join(', ') || 'none'}`;
      throw new PolicyUnusableError(
        target.model === null
          ? `the policy at ${replica.name} does not serve just one model, so one has to be named; ${serves}`
          : `the policy at ${replica.name} does not serve ${JSON.stringify(target.model)}; ${serves}`,
      );
    }
    prober.model = model;
    const sglang = engine === 'sglang';
    const captured = await capture(prober, sglang);
    const found = {
      engine,
      model,
      models,
      ...captured,
      streaming_ids: !sglang && captured.ids && (await streamsIds(prober)),
      logprobs_mode: captured.logprobs ? await prober.logprobsMode() : ('unknown' as const),
      tools:
        (await prober.chat({ temperature: 1, tools: [tool], tool_choice: 'auto' })).status === 200 &&
        (!sglang || (await parsesCalls(prober))),
      system_in_place: await prober.systemInPlace(),
      ...(await prober.continuation(engine)),
    };
    return { ...found, missing_flags: missingFlags(found) };
  } catch (error) {
    const name = `the policy at ${replica.name}`;
    if (error instanceof DOMException && error.name === 'TimeoutError') {
      throw new PolicyUnusableError(`${name} does not answer in time`, { cause: error, down: true });
    }
    if (!(error instanceof EngineError)) throw error;
    throw new PolicyUnusableError(`${name} cannot be used: ${error.message}`, {
      cause: error,
      down: error.fault === 'unreachable' || error.fault === 'busy',
    });
  } finally {
    await replica.close();
  }
}
