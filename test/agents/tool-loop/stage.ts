import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { createToolLoopAgent, type AgentOutcome, type ToolMode } from '../../../src/agents/index.ts';
import {
  fleetTaskSchema,
  resolveLimits,
  resolveSampling,
  type CallRecord,
  type EffectiveLimits,
  type FleetTask,
  type Sequence,
} from '../../../src/contracts/index.ts';
import { createGateway, type GatewaySession, type SessionStats } from '../../../src/gateway/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import {
  parseScripts,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { Notebook } from './notebook.ts';

export interface EpisodeInput {
  readonly toolMode?: ToolMode;
  readonly prompt?: string;
  readonly task?: Partial<FleetTask>;
  readonly limits?: Partial<EffectiveLimits>;
  readonly environment?: Notebook | null;
  readonly signal?: AbortSignal;
}

export interface RunningEpisode {
  readonly environment: Notebook;
  readonly session: GatewaySession;
  readonly outcome: Promise<AgentOutcome>;
  /** Ends the session. */
  finish(): Promise<EndedEpisode>;
}

export interface EndedEpisode {
  readonly calls: readonly CallRecord[];
  readonly sequences: readonly Sequence[];
  readonly stats: SessionStats;
}

export interface Stage extends AsyncDisposable {
  start(input?: EpisodeInput): Promise<RunningEpisode>;
  /** Plays an episode to its end. */
  play(input?: EpisodeInput): Promise<EndedEpisode & { outcome: AgentOutcome; environment: Notebook }>;
}

let count = 0;

/** A gateway in front of a policy, with episodes of the tool loop in a notebook each. */
export async function openStage(policyUrl: string, model: string): Promise<Stage> {
  const runtimeDir = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
  const gateway = await createGateway({
    policy: { urls: [policyUrl], model, logprobsMode: 'processed', systemInPlace: true },
    runtimeDir,
    log: silentLogger,
  });
  const start: Stage['start'] = async (input = {}) => {
    count += 1;
    const id = `e${process.pid}t${count}`;
    const limits = resolveLimits(input.limits ?? {});
    const session = await gateway.open({
      episode_id: id,
      attempt: 1,
      nonce: id,
      sampling: resolveSampling(),
      limits,
      unix_socket: false,
    });
    const environment = input.environment ?? new Notebook();
    const outcome = createToolLoopAgent({ toolMode: input.toolMode ?? 'native' }).run({
      task: fleetTaskSchema.parse({
        task_key: id,
        kind: 'fleet',
        prompt: input.prompt ?? 'Play the script.',
        env_key: 'notebook',
        ...input.task,
      }),
      session,
      sandbox: null,
      environment: input.environment === null ? null : environment,
      limits,
      episode_id: id,
      attempt: 1,
      signal: input.signal ?? new AbortController().signal,
      log: silentLogger,
    });
    outcome.catch(() => {});
    return {
      environment,
      session,
      outcome,
      finish: async () => {
        const calls = await session.finish();
        return { calls, sequences: buildSequences(calls).sequences, stats: session.stats() };
      },
    };
  };
  return {
    start,
    play: async (input) => {
      const episode = await start(input);
      const outcome = await episode.outcome;
      return { ...(await episode.finish()), outcome, environment: episode.environment };
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await rm(runtimeDir, { recursive: true, force: true });
    },
  };
}

export type Turns = readonly Record<string, unknown>[];

/** A policy that plays these turns for the prompt `Play the script.`, or for each of several prompts its own. */
export async function scripted(
  turns: Turns | Readonly<Record<string, Turns>>,
  options: Partial<ScriptedPolicyOptions> = {},
): Promise<Stage & { readonly policy: ScriptedPolicy }> {
  const byPrompt = Array.isArray(turns) ? { 'Play the script.': turns as Turns } : turns;
  const policy = await startScriptedPolicy({
    seed: 1,
    splitRate: 0.2,
    ...options,
    scripts: parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: Object.entries(byPrompt).map(([match, steps]) => ({ match, turns: steps })),
    }),
  });
  try {
    const stage = await openStage(policy.url, policy.model);
    return {
      ...stage,
      policy,
      [Symbol.asyncDispose]: async () => {
        await stage[Symbol.asyncDispose]();
        await policy[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await policy[Symbol.asyncDispose]();
    throw error;
  }
}

/** The tools' and the users' messages that the policy was sent after the prompt, in order. */
export function told(calls: readonly CallRecord[]): unknown[] {
  return calls.slice(1).flatMap((call) => call.new_messages.filter(({ role }) => role !== 'assistant'));
}

/**
 * That one exact sequence holds every token the policy sampled, with its own logprobs, and nothing else is masked as
 * sampled.
 */
export function expectExact(policy: ScriptedPolicy, sequences: readonly Sequence[]): void {
  const samples = policy.samples();
  expect(sequences.map(({ certificate }) => certificate.grade)).toEqual(['exact']);
  const [sequence] = sequences;
  expect(sequence!.turns.map(({ start, end }) => [...sequence!.token_ids.slice(start, end)])).toEqual(
    samples.map((sample) => [...sample.token_ids]),
  );
  expect(sequence!.turns.map(({ start, end }) => [...sequence!.logprobs.slice(start, end)])).toEqual(
    samples.map((sample) => [...sample.logprobs].map(Math.fround)),
  );
  const sampled = samples.reduce((sum, sample) => sum + sample.token_ids.length, 0);
  expect(sequence!.loss_mask.reduce((sum, bit) => sum + bit, 0)).toBe(sampled);
  // What was sampled stands at the end of its prompt, to the token.
  for (const [at, { start }] of sequence!.turns.entries()) {
    expect([...sequence!.token_ids.slice(0, start)]).toEqual([...samples[at]!.prompt_token_ids]);
  }
}
