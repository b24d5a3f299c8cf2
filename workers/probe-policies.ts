import type { Settings } from '../src/config/index.ts';
import { PolicyUnusableError, probePolicy, type PolicyProbe } from '../src/gateway/index.ts';

/** How long one replica may take to say what it is: one that froze must not hold the worker's start. */
const probeMs = 60_000;

/** No policy was named. */
export class NoPolicyError extends Error {
  constructor() {
    super('no policy was named: set ROLLPOOL_POLICY_URL or give --policy-url');
    this.name = 'NoPolicyError';
  }
}

/** The policy's answers cannot be trained on, and nobody said that this is fine. */
export class UntrainablePolicyError extends Error {
  /** `streaming`: its answers are to be streamed. */
  constructor(url: string, probe: PolicyProbe, streaming: boolean) {
    const missing = [
      ...(probe.ids ? [] : ['token ids']),
      ...(probe.prompt_ids ? [] : ['prompt token ids']),
      ...(probe.logprobs ? [] : ['logprobs']),
      ...(streaming && !probe.streaming_ids ? ['token ids while it streams'] : []),
    ];
    super(
      `the policy at ${url} returns no ${missing.join(', no ')}: nothing it samples could be trained on. ` +
        `Missing: ${probe.missing_flags.join(' ') || 'unknown'}. --allow-untrainable runs it all the same.`,
    );
    this.name = 'UntrainablePolicyError';
  }
}

export interface ProbeOptions {
  readonly settings: Settings;
  /** Takes a policy that returns no ids or logprobs: rewards only. Default: false. */
  readonly allowUntrainable?: boolean;
  readonly signal?: AbortSignal;
}

/** What the replicas that answer have in common. */
export interface ProbedPolicies extends PolicyProbe {
  /** URLs of those that do not answer. */
  readonly down: readonly string[];
}

async function probeOne(
  url: string,
  { settings, allowUntrainable, signal }: ProbeOptions,
  model: string | null,
): Promise<PolicyProbe> {
  const { apiKey, streaming } = settings.policy;
  const limit = AbortSignal.timeout(probeMs);
  const probe = await probePolicy({
    url,
    apiKey: apiKey ?? undefined,
    model,
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  });
  // SGLang is never asked to stream.
  const streams = streaming && probe.engine !== 'sglang';
  const trainable = probe.ids && probe.prompt_ids && probe.logprobs && (!streams || probe.streaming_ids);
  if (!trainable && allowUntrainable !== true) throw new UntrainablePolicyError(url, probe, streams);
  return probe;
}

/** Refuses replicas that say different things: an episode may move between them, and one engine speaks to all. */
function refuseDifferent(
  what: string,
  answers: readonly (readonly [url: string, answer: string])[],
  same: (a: string, b: string) => boolean = (a, b) => a === b,
): void {
  const first = answers[0]?.[1];
  if (first === undefined || answers.every(([, answer]) => same(answer, first))) return;
  const each = answers.map(([url, answer]) => `${url} is ${answer}`);
  throw new PolicyUnusableError(`the replicas must be of one ${what}: ${each.join(', ')}`);
}

/** Where one could not be told, nothing is said against the others. */
function oneMode(probes: readonly PolicyProbe[]): PolicyProbe['logprobs_mode'] {
  const [first, ...others] = new Set(probes.map(({ logprobs_mode }) => logprobs_mode));
  return others.length === 0 && first !== undefined ? first : 'unknown';
}

/**
 * Asks every replica what it is. At least one must answer; all that do must be of one kind of server, serve one model
 * with one kind of logprobs, and return ids and logprobs. What else they can do is what all of them can.
 */
export async function probePolicies(options: ProbeOptions): Promise<ProbedPolicies> {
  const { urls, model } = options.settings.policy;
  const asked = await Promise.allSettled(urls.map((url) => probeOne(url, options, model)));
  options.signal?.throwIfAborted();
  const up: (readonly [string, PolicyProbe])[] = [];
  const down: string[] = [];
  let why: unknown = new NoPolicyError();
  for (const [at, answer] of asked.entries()) {
    const url = urls[at]!;
    if (answer.status === 'fulfilled') {
      up.push([url, answer.value]);
      continue;
    }
    if (!(answer.reason instanceof PolicyUnusableError && answer.reason.down)) throw answer.reason;
    if (down.length === 0) why = answer.reason;
    down.push(url);
  }
  const probes = up.map(([, probe]) => probe);
  const [first] = probes;
  if (first === undefined) throw why;
  refuseDifferent(
    'kind of server',
    up.map(([url, { engine }]) => [url, engine]),
    (a, b) => (a === 'sglang') === (b === 'sglang'),
  );
  refuseDifferent(
    'model',
    up.map(([url, probe]) => [url, probe.model]),
  );
  refuseDifferent(
    'kind of logprobs',
    up
      .map(([url, { logprobs_mode }]) => [url, logprobs_mode] as const)
      .filter(([, mode]) => mode !== 'unknown'),
  );
  const all = (can: (probe: PolicyProbe) => boolean): boolean => probes.every(can);
  return {
    ...first,
    ids: all(({ ids }) => ids),
    prompt_ids: all(({ prompt_ids }) => prompt_ids),
    logprobs: all(({ logprobs }) => logprobs),
    logprobs_mode: oneMode(probes),
    streaming_ids: all(({ streaming_ids }) => streaming_ids),
    tools: all(({ tools }) => tools),
    system_in_place: all(({ system_in_place }) => system_in_place),
    continues: all(({ continues }) => continues),
    call_format: all(({ call_format }) => call_format === first.call_format) ? first.call_format : null,
    down,
  };
}

/** One line for people about the replicas that do not answer; null when all do. */
export function downLine({ down }: ProbedPolicies): string | null {
  if (down.length === 0) return null;
  return `no answer from ${down.join(', ')}: no call goes there until it answers and is found to be what the others are`;
}

/** What of the policy a replica that came up later does not have; null when it is one of its kind. */
function difference(policy: PolicyProbe, late: PolicyProbe): string | null {
  if ((policy.engine === 'sglang') !== (late.engine === 'sglang')) {
    return `it is ${late.engine}, the others are ${policy.engine}`;
  }
  const modes = [policy.logprobs_mode, late.logprobs_mode];
  if (!modes.includes('unknown') && modes[0] !== modes[1]) {
    return `it gives ${late.logprobs_mode} logprobs, the others ${policy.logprobs_mode}`;
  }
  if (policy.tools && !late.tools) return 'it takes no tools, the others do';
  if (policy.system_in_place && !late.system_in_place) {
    return 'its template moves or refuses system messages in mid-conversation, the others keep them';
  }
  if (policy.continues && !late.continues) return 'it does not go on from token ids, the others do';
  return null;
}

/**
 * Whether a replica that was down at the start may be used now: null when it may, else why not. Rejects with a
 * PolicyUnusableError that says `down` where it still does not answer.
 */
export function admission(
  policy: PolicyProbe,
  options: ProbeOptions,
): (url: string, signal: AbortSignal) => Promise<string | null> {
  return async (url, signal) => {
    try {
      return difference(policy, await probeOne(url, { ...options, signal }, policy.model));
    } catch (error) {
      if (error instanceof UntrainablePolicyError) return error.message;
      if (error instanceof PolicyUnusableError && !error.down) return error.message;
      throw error;
    }
  };
}
