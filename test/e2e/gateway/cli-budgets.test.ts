import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createClaudeCodeAgent, createStartGate } from '../../../src/agents/index.ts';
import { taskSchema, type Limits, type ResultSummary, type Trace } from '../../../src/contracts/index.ts';
import { createEpisodeProcessor } from '../../../src/episode/index.ts';
import { createGateway } from '../../../src/gateway/index.ts';
import { createCommandGrader } from '../../../src/grading/index.ts';
import { parseScripts, startScriptedPolicy, type FaultInput } from '../../../src/policy/index.ts';
import { createSandboxProvider } from '../../../src/sandbox/index.ts';
import { decodePayload, decodeTrace } from '../../../src/trajectory/index.ts';
import { cliPath } from '../../gateway/support/run-cli.ts';
import { cliPlace, listenToRequests, type Asked } from './cli-play.ts';

interface Budget {
  readonly name: string;
  readonly limits: Limits;
  readonly maxModelLen?: number;
  readonly faults?: readonly FaultInput[];
  /** `startedAt`: of the episode, epoch milliseconds. */
  readonly turns: (startedAt: number) => readonly unknown[];
  /** Holds when the work was done up to its last turn. */
  readonly verify: string;
  readonly stop_reason: ResultSummary['stop_reason'];
  /** What the CLI said at its end; absent where it was killed. */
  readonly told?: string;
  /** Finish reasons of all calls, and the fates of those without one. */
  readonly calls: readonly string[];
  readonly notes?: readonly string[];
  /** Requests that got no call: refused, or told again what got a 400 just before. Default: none. */
  readonly refused?: number;
  readonly repeated?: number;
}

interface Ended {
  readonly asked: Asked;
  readonly summary: ResultSummary;
  readonly trace: Trace;
  readonly notes: readonly string[];
}

const bash = (command: string): unknown => ({ tool_calls: [{ name: 'Bash', arguments: { command } }] });
/** Waits for a time, however long the CLI took to start. */
const waitFor = (epochMs: number): string =>
  `while [ $(date +%s%N | cut -c1-13) -lt ${epochMs} ]; do sleep 0.05; done`;

/** A whole episode of the real CLI in a local sandbox, from its set-up to its grade. */
async function runEpisode(budget: Budget): Promise<Ended> {
  using _place = await cliPlace();
  await using policy = await startScriptedPolicy({
    scripts: parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: [{ match: 'Please work.', turns: budget.turns(Date.now()) }],
    }),
    splitRate: 0,
    faults: budget.faults ?? [],
    ...(budget.maxModelLen === undefined ? {} : { maxModelLen: budget.maxModelLen }),
  });
  const { log, asked } = listenToRequests();
  const runtimeDir = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
  try {
    await chmod(runtimeDir, 0o711);
    await using gateway = await createGateway({
      policy: { urls: [policy.url], model: policy.model, logprobsMode: 'processed' },
      runtimeDir,
      log,
    });
    await using provider = createSandboxProvider('local');
    const run = createEpisodeProcessor({
      sessions: gateway,
      partsFor: () => ({
        provider,
        agent: createClaudeCodeAgent({ startGate: createStartGate() }),
        grader: createCommandGrader(),
        cli_binary: cliPath(),
      }),
      policy: { model: policy.model, logprobs_mode: 'processed', version_source: 'none' },
      limits: {},
      sampling: {},
      pool: '{test}',
      log,
    });
    const id = `e${process.pid}b${budget.name.replace(/\W+/g, '')}`;
    const { summary, payload } = await run({
      job: {
        schema: 1,
        run_id: 'r',
        batch_id: '0',
        episode_id: id,
        group_id: 'g0',
        group_size: 1,
        sample_index: 0,
        task_key: 'work',
        task_ref: 'x',
        sampling: {},
        limits: {},
        priority: 0,
      },
      task: taskSchema.parse({
        task_key: 'work',
        kind: 'claude_code',
        prompt: 'Please work.',
        verify: { commands: [budget.verify] },
        limits: budget.limits,
      }),
      attempt: 1,
      nonce: id,
      worker: 'w',
      lane: 'claude_code-local',
      queued_at: Date.now(),
      run: { sampling: {}, limits: {} },
      signal: new AbortController().signal,
    });
    const { sequences } = decodePayload(payload!);
    return {
      asked: asked(),
      summary,
      trace: decodeTrace(payload!),
      notes: sequences.flatMap(({ certificate }) => certificate.notes),
    };
  } finally {
    await rm(runtimeDir, { recursive: true, force: true });
  }
}

const budgets: readonly Budget[] = [
  {
    name: 'turns',
    limits: { max_turns: 3 },
    turns: () => [{ repeat: 10, turns: [bash('echo {{turn}} >> turns.txt')] }],
    // The tools of the last turn have run.
    verify: 'test "$(cat turns.txt | tr -d "\\n")" = 012',
    stop_reason: 'max_turns',
    told: 'Reached maximum number of turns (3)',
    calls: ['tool_calls', 'tool_calls', 'tool_calls'],
  },
  {
    name: 'sampled tokens, in the middle of a call',
    limits: { max_sampled_tokens: 60 },
    turns: () => [bash('echo 1 > a.txt'), bash(`echo ${'word '.repeat(200)}`)],
    verify: 'test -e a.txt',
    stop_reason: 'max_tokens',
    told: "API Error: 402 this episode's budget of 60 sampled tokens is used up",
    refused: 1,
    calls: ['tool_calls', 'length'],
    notes: ['truncated_turn'],
  },
  {
    name: 'tokens of one answer, again and again',
    limits: { max_output_tokens: 30 },
    turns: () => [bash('echo 1 > a.txt'), { repeat: 10, turns: [{ text: 'word '.repeat(200) }] }],
    verify: 'test -e a.txt',
    stop_reason: 'max_tokens',
    told: "API Error: Claude's response exceeded the 30 output token maximum",
    calls: ['tool_calls', 'length', 'length', 'length', 'length'],
    notes: ['truncated_turn'],
  },
  {
    name: 'the context',
    limits: { context_tokens: 14_000 },
    turns: () => [bash('echo 1 > a.txt; seq 1 6000'), { text: 'never said' }],
    verify: 'test -e a.txt',
    stop_reason: 'context_overflow',
    told: 'Prompt is too long',
    repeated: 1,
    calls: ['tool_calls', 'failed'],
  },
  {
    name: 'the context of the engine, which is the smaller one',
    limits: {},
    maxModelLen: 14_000,
    turns: () => [bash('echo 1 > a.txt; seq 1 6000'), { text: 'never said' }],
    verify: 'test -e a.txt',
    stop_reason: 'context_overflow',
    told: 'Prompt is too long',
    repeated: 1,
    calls: ['tool_calls', 'failed'],
  },
  {
    name: 'seconds, while a tool runs',
    limits: { agent_seconds: 8 },
    turns: () => [bash('echo 1 > a.txt; sleep 60; echo 2 > a.txt')],
    verify: 'test "$(cat a.txt)" = 1',
    stop_reason: 'timeout',
    calls: ['tool_calls'],
  },
];

// The CLI is an optional package: without it there is nothing real to drive.
describe.skipIf(cliPath() === null)('an episode of the real CLI that uses up its', () => {
  async function expectEnd(budget: Budget): Promise<void> {
    const { summary, trace, notes, asked } = await runEpisode(budget);
    expect(summary).toMatchObject({
      status: 'truncated',
      stop_reason: budget.stop_reason,
      reward: 1,
      failure: null,
      grades: { exact: 1, forked: 0, untrainable: 0 },
    });
    expect(trace.calls.map(({ fate, finish_reason }) => finish_reason ?? fate)).toEqual(budget.calls);
    expect(trace.calls.filter(({ finish_reason }) => finish_reason !== null)).toEqual(
      trace.calls.filter(({ fate }) => fate === 'delivered'),
    );
    expect(notes).toEqual(budget.notes ?? []);
    const { agent_detail: detail, api_retries: retries } = summary.metrics;
    // It ends at once: nothing is asked for again.
    expect(retries).toBeUndefined();
    expect(asked.refused).toHaveLength(budget.refused ?? 0);
    expect(asked.repeated).toBe(budget.repeated ?? 0);
    if (budget.told === undefined) expect(detail).toBeUndefined();
    else expect(detail).toContain(budget.told);
  }

  test.concurrent.each(budgets)('$name', { timeout: 180_000 }, expectEnd);

  test.concurrent('seconds, while a call is on its way', { timeout: 180_000 }, () =>
    expectEnd({
      name: 'seconds while a call is on its way',
      // The call takes less than half of it, which would be the policy's fault.
      limits: { agent_seconds: 12 },
      turns: (startedAt) => [bash(`echo 1 > a.txt; ${waitFor(startedAt + 9_000)}`), { text: 'never said' }],
      faults: [{ kind: 'hang', skip: 1 }],
      verify: 'test -e a.txt',
      stop_reason: 'timeout',
      calls: ['tool_calls', 'aborted'],
    }),
  );
});
