import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAgent, createStartGate } from '../../../src/agents/index.ts';
import {
  fleetTaskSchema,
  resultSummarySchema,
  type CreationGate,
  type EffectiveLimits,
  type FleetTask,
  type ResultSummary,
} from '../../../src/contracts/index.ts';
import { createEpisodeProcessor } from '../../../src/episode/index.ts';
import { createFleetProvider, type FleetProviderOptions } from '../../../src/fleet/index.ts';
import { createGateway } from '../../../src/gateway/index.ts';
import { createVerifierGrader } from '../../../src/grading/index.ts';
import { shippedEnvironments, startLocalFleet, type LocalFleet } from '../../../src/local-fleet/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { parseScripts, startScriptedPolicy, type ScriptedPolicy } from '../../../src/policy/index.ts';
import { AbortCause } from '../../../src/queue/processor.ts';
import { decodePayload } from '../../../src/trajectory/index.ts';
import { until } from '../../support/wait.ts';

/** Passes when exactly one message went to customer 101, and nothing else changed. */
export const messageVerifier = `
def validate_task(env, final_answer=None):
    env.instance.load()
    seed = env.db("seed")
    current = env.db("current")
    known = {row["id"] for row in seed.table("messages").all()}
    new = [row for row in current.table("messages").all() if row["id"] not in known]
    if len(new) != 1 or new[0]["customer_id"] != 101 or not normalized_contains("ready", new[0]["body"]):
        return TASK_FAILED_SCORE
    seed.diff(current, IgnoreConfig(tables={"messages"})).expect_only([])
    return TASK_SUCCESSFUL_SCORE
`;

export function messageTask(more: Record<string, unknown> = {}): FleetTask {
  return fleetTaskSchema.parse({
    task_key: 'tell-the-customer',
    kind: 'fleet',
    prompt: 'Tell customer 101 that the bike is ready.',
    env_key: 'bike-workshop',
    env_variables: { CURRENT_DATE: '2026-03-16', LOGGED_IN_USER: '1' },
    verifier_code: messageVerifier,
    ...more,
  });
}

const look = { name: 'get_customer', arguments: { customer_id: 101 } };
const tell = { name: 'send_message', arguments: { customer_id: 101, body: 'Your bike is ready.' } };

const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: [
    {
      match: 'Tell customer 101',
      turns: [{ tool_calls: [look] }, { text: 'I tell them.', tool_calls: [tell] }, { text: 'They know.' }],
    },
  ],
});

export interface FleetStage extends AsyncDisposable {
  readonly fleet: LocalFleet;
  readonly policy: ScriptedPolicy;
  /** One attempt of an episode, as a worker runs it: its summary, and whether every sequence is exact. */
  run(options?: RunOptions): Promise<{ summary: ResultSummary; exact: boolean }>;
}

export interface RunOptions {
  readonly task?: FleetTask;
  readonly limits?: Partial<EffectiveLimits>;
  readonly partialReward?: boolean;
  readonly signal?: AbortSignal;
  readonly apiKey?: string;
}

export const fleetKey = 'the-fleet-key';

/** Nothing holds a creation back; counts the refusals. */
export function openGate(): CreationGate & { readonly refusals: number } {
  let refusals = 0;
  return {
    get refusals() {
      return refusals;
    },
    enter: async (signal) => {
      signal.throwIfAborted();
      const nothing = async (): Promise<void> => {};
      return {
        passed: nothing,
        left: nothing,
        refused: async () => {
          refusals += 1;
          await new Promise((resolve) => setImmediate(resolve));
        },
      };
    },
  };
}

/** The whole way of a Fleet episode in one process: local Fleet, scripted policy, gateway, tool loop, verifier. */
export async function openFleetStage(
  options: {
    readonly gate?: CreationGate;
    readonly provider?: Partial<FleetProviderOptions>;
    readonly fleet?: { readonly instanceLimit?: number };
  } = {},
): Promise<FleetStage> {
  const directory = await mkdtemp(join(tmpdir(), `rp-fleet-${process.pid}-`));
  const policy = await startScriptedPolicy({ scripts, seed: 3 });
  const fleet = await startLocalFleet({
    environments: await shippedEnvironments(),
    apiKey: fleetKey,
    ...options.fleet,
  });
  const gateway = await createGateway({
    policy: { urls: [policy.url], model: policy.model, logprobsMode: 'processed' },
    runtimeDir: directory,
    log: silentLogger,
  });
  const agent = createAgent('fleet', { startGate: createStartGate(), toolMode: 'native' });
  let runs = 0;
  return {
    fleet,
    policy,
    run: async ({
      task = messageTask(),
      limits = {},
      partialReward = false,
      signal,
      apiKey = fleetKey,
    } = {}) => {
      const provider = createFleetProvider({
        baseUrl: fleet.url,
        apiKey,
        gate: options.gate ?? openGate(),
        timings: { createPauses: [1, 1, 1, 1], sweepAgain: [1], pendingPoll: 5, createGrace: 500 },
        retry: { base_ms: 1, longest_ms: 5 },
        ...options.provider,
      });
      try {
        const process = createEpisodeProcessor({
          sessions: gateway,
          partsFor: () => ({
            provider: null,
            environments: provider,
            agent,
            grader: createVerifierGrader({ backoffMs: [1, 1, 1], partialReward }),
            cli_binary: null,
          }),
          policy: { model: policy.model, logprobs_mode: 'processed', version_source: 'none' },
          limits,
          sampling: {},
          pool: '{test}',
          log: silentLogger,
        });
        runs += 1;
        const { summary, payload } = await process({
          job: {
            schema: 1,
            run_id: 'r',
            batch_id: '0',
            episode_id: `e${runs}`,
            group_id: 'g0',
            group_size: 1,
            sample_index: 0,
            task_key: task.task_key,
            task_ref: 't',
            sampling: {},
            limits: {},
            priority: 0,
          },
          task,
          attempt: 1,
          nonce: `n${runs}`,
          worker: 'w',
          lane: 'fleet',
          queued_at: Date.now(),
          run: { sampling: {}, limits: {} },
          signal: signal ?? new AbortController().signal,
        });
        const sequences = payload === null ? [] : decodePayload(payload).sequences;
        return {
          summary: resultSummarySchema.parse(summary),
          exact: sequences.length > 0 && sequences.every(({ certificate }) => certificate.grade === 'exact'),
        };
      } finally {
        await provider[Symbol.asyncDispose]();
      }
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await until(() => fleet.sessions() === 0, 'no MCP session is open');
      await fleet[Symbol.asyncDispose]();
      await policy[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** An attempt that somebody cancelled. */
export function cancelled(): AbortCause {
  return new AbortCause('cancelled');
}
