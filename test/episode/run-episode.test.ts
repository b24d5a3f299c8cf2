import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  agentDone,
  createInProcessAgent,
  type AgentContext,
  type AgentOutcome,
} from '../../src/agents/index.ts';
import {
  EpisodeError,
  resultSummarySchema,
  taskSchema,
  type EpisodeJob,
  type Task,
} from '../../src/contracts/index.ts';
import { createEpisodeProcessor, type EpisodePorts } from '../../src/episode/index.ts';
import { createGateway, type Gateway } from '../../src/gateway/index.ts';
import type { Grader } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { parseScripts, startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { AbortCause, type EpisodeAttempt } from '../../src/queue/processor.ts';
import { createSandboxProvider, createSandboxShelf, createWarmPool } from '../../src/sandbox/index.ts';
import type { Ahead } from '../../src/sandbox/sandbox.ts';
import { decodePayload, decodeTrace } from '../../src/trajectory/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';

const task: Task = taskSchema.parse({
  task_key: 'counting',
  kind: 'claude_code',
  prompt: 'count with me',
  verify: { commands: ['true'] },
  metadata: { origin: 'test' },
});

const job: EpisodeJob = {
  schema: 1,
  run_id: 'r',
  batch_id: '0',
  episode_id: 'e0',
  group_id: 'g0',
  group_size: 2,
  sample_index: 1,
  task_key: 'counting',
  task_ref: 'x',
  sampling: {},
  limits: {},
  priority: 0,
};

/** An agent of `turns` model calls, each with the whole history before it. */
const converse =
  (turns: number) =>
  async (context: AgentContext): Promise<AgentOutcome> => {
    const messages: Parameters<AgentContext['session']['chat']>[0]['messages'][number][] = [
      { role: 'user', content: context.task.prompt },
    ];
    for (let turn = 0; turn < turns; turn++) {
      const answer = await context.session.chat(
        { messages: [...messages] },
        { agent_id: 'main', role: 'main', signal: context.signal },
      );
      answer.delivered(true);
      messages.push(answer.message, { role: 'user', content: `tool says ${turn}` });
    }
    return agentDone('done');
  };

const grader = (reward: number): Grader => ({
  grade: async () => ({ reward, rewards: { tests: reward }, verify: [], metrics: {} }),
});

describe('an episode', () => {
  let policy: ScriptedPolicy;
  let gateway: Gateway;
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rp-test-${process.pid}-`));
    policy = await startScriptedPolicy({
      seed: 7,
      scripts: parseScripts({
        schema: 'rollpool.scripts/1',
        scripts: [
          { match: 'count with me', turns: [{ text: ['one', 'uno'] }, { text: 'two' }, { text: 'three' }] },
        ],
      }),
    });
    gateway = await createGateway({
      policy: { urls: [policy.url], model: policy.model, logprobsMode: 'processed' },
      runtimeDir: directory,
      log: silentLogger,
    });
  });

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await policy?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  function processor(
    act: (context: AgentContext) => Promise<AgentOutcome>,
    over: Partial<EpisodePorts> & { grader?: Grader } = {},
  ): ReturnType<typeof createEpisodeProcessor> {
    const agent = createInProcessAgent(act);
    return createEpisodeProcessor({
      sessions: gateway,
      partsFor: () => ({ provider: null, agent, grader: over.grader ?? grader(1), cli_binary: null }),
      policy: { model: policy.model, logprobs_mode: 'processed', version_source: 'none' },
      limits: {},
      sampling: {},
      pool: '{test}',
      log: silentLogger,
      ...over,
    });
  }

  let nonces = 0;
  function attempt(over: Partial<EpisodeAttempt> = {}): EpisodeAttempt {
    return {
      job,
      task,
      attempt: 2,
      nonce: `n${(nonces += 1)}`,
      worker: 'w',
      lane: 'claude_code-local',
      queued_at: Date.now() - 1000,
      run: { sampling: {}, limits: {} },
      signal: new AbortController().signal,
      ...over,
    };
  }

  it('names the engine as the source of versions that nobody pushed', async () => {
    await using engine = await startScriptedPolicy({
      scripts: [{ match: 'count with me', turns: [{ text: 'one' }, { text: 'two' }] }],
      engine: 'sglang',
      weightVersion: '7',
      faults: { kind: 'weights', version: '8', skip: 1 },
    });
    await using sessions = await createGateway({
      policy: { urls: [engine.url], model: engine.model, engine: 'sglang', logprobsMode: 'processed' },
      runtimeDir: join(directory, 'engine'),
      log: silentLogger,
    });
    const { summary } = await processor(converse(2), { sessions })(attempt());
    expect(resultSummarySchema.parse(summary).policy).toMatchObject({
      version_start: 7,
      version_end: 8,
      version_source: 'engine',
    });
  });

  it('ends as a valid result whose one exact sequence holds what the policy sampled', async () => {
    const before = policy.samples().length;
    const { summary, payload } = await processor(converse(3))(attempt());
    expect(resultSummarySchema.parse(summary)).toMatchObject({
      episode_id: 'e0',
      attempt: 2,
      status: 'completed',
      stop_reason: 'agent_done',
      reward: 1,
      rewards: { tests: 1 },
      failure: null,
      metadata: { origin: 'test' },
      metrics: { turns: 3 },
      grades: { exact: 1, forked: 0, untrainable: 0 },
      usage: { calls: 3, discarded_tokens: 0 },
      sandbox: null,
    });
    expect(summary.policy).toMatchObject({ version_start: null, version_end: null, version_source: 'none' });
    expect(summary.timing.queued_s).toBeGreaterThanOrEqual(1);

    const sampled = policy.samples().slice(before);
    const [sequence] = decodePayload(payload ?? new Uint8Array()).sequences;
    expect(sequence?.turns).toHaveLength(3);
    sequence?.turns.forEach((turn, index) => {
      expect([...sequence.token_ids.slice(turn.start, turn.end)]).toEqual([
        ...(sampled[index]?.token_ids ?? []),
      ]);
      expect([...sequence.logprobs.slice(turn.start, turn.end)]).toEqual(
        [...(sampled[index]?.logprobs ?? [])].map(Math.fround),
      );
    });
    const trace = decodeTrace(payload ?? new Uint8Array());
    expect(trace.calls.map((call) => call.answer?.content)).toEqual([
      expect.stringMatching(/^(one|uno)$/),
      'two',
      'three',
    ]);
    expect(trace.calls[1]?.new_messages.at(-1)).toEqual({ role: 'user', content: 'tool says 0' });
  });

  it('is truncated, and graded, when it runs out of turns', async () => {
    const { summary } = await processor(
      async (context) => {
        try {
          return await converse(3)(context);
        } catch (error) {
          return { ...agentDone(), ending: 'agent_error', detail: String(error) };
        }
      },
      { limits: { max_turns: 2 }, grader: grader(0.5) },
    )(attempt());
    expect(summary).toMatchObject({
      status: 'truncated',
      stop_reason: 'max_turns',
      reward: 0.5,
      metrics: { turns: 2 },
    });
  });

  it('is truncated with a grade when its time is up', async () => {
    const { summary } = await processor(
      async (context) => {
        await converse(1)(context);
        return new Promise(() => {});
      },
      { limits: { agent_seconds: 0.4 }, grader: grader(0) },
    )(attempt());
    expect(summary).toMatchObject({ status: 'truncated', stop_reason: 'timeout', reward: 0 });
  });

  it.runIf(haveDocker)('is truncated with a grade when its agent fills the disk of its sandbox', async () => {
    await using provider = createSandboxProvider('docker', { diskMb: 32 });
    const agent = createInProcessAgent(async (context) => {
      await converse(1)(context);
      const fill = 'i=0; while :; do head -c 2M /dev/zero >a$i; i=$((i + 1)); sleep 0.05; done';
      const filled = await context.sandbox!.exec(fill, { user: 'agent', timeout_ms: 60_000 });
      return { ...agentDone(), ending: 'agent_error', exit_code: filled.exit_code };
    });
    const graders = grader(0.5);
    const { summary } = await processor(converse(1), {
      partsFor: () => ({ provider, agent, grader: graders, cli_binary: null }),
    })(attempt({ lane: 'claude_code-docker' }));
    expect(summary).toMatchObject({
      status: 'truncated',
      stop_reason: 'agent_error',
      reward: 0.5,
      metrics: { disk_full: true },
    });
  });

  it.runIf(haveDocker)(
    'finds in a sandbox made ahead what its agent wanted to run there already',
    async () => {
      await using provider = createSandboxProvider('docker', { runtimeDirectory: directory });
      await using shelf = createSandboxShelf({ capacity: 1, fillAfter: 1 });
      const pool = createWarmPool(provider, { shelf });
      const started: string[] = [];
      const found: unknown[] = [];
      const agent = {
        ...createInProcessAgent(async (context) => {
          found.push(context.sandbox?.warm?.ahead);
          return converse(1)(context);
        }),
        ahead: (): Ahead => ({
          key: 'k',
          start: async ({ id }) => {
            started.push(id);
            return { alive: () => true, [Symbol.asyncDispose]: async () => {} };
          },
        }),
      };
      const act = processor(converse(1), {
        partsFor: () => ({ provider: pool, agent, grader: grader(1), cli_binary: null }),
      });
      const first = await act(attempt({ lane: 'claude_code-docker' }));
      expect(first.summary.failure).toBeNull();
      await shelf.settled();
      expect(started).toHaveLength(1);
      const { summary } = await act(attempt({ lane: 'claude_code-docker' }));
      expect(summary).toMatchObject({ metrics: { warm: true }, sandbox: { id: started[0] } });
      expect(found).toEqual([undefined, expect.objectContaining({ alive: expect.any(Function) })]);
    },
  );

  it('is a retryable infra failure without a reward when an error of ours ends it', async () => {
    const { summary, payload } = await processor(async (context) => {
      await converse(1)(context);
      throw new Error('a bug of ours');
    })(attempt());
    expect(summary).toMatchObject({
      status: 'failed',
      stop_reason: 'infra',
      reward: null,
      failure: { class: 'infra', code: 'internal_error', message: 'a bug of ours', retryable: true },
    });
    expect(decodePayload(payload ?? new Uint8Array()).sequences).toHaveLength(1);
  });

  it('keeps the tokens of an episode whose verifier is at fault, without a reward', async () => {
    const { summary } = await processor(converse(1), {
      grader: {
        grade: async () => {
          throw new EpisodeError({
            class: 'task',
            phase: 'grade',
            code: 'verifier_missing',
            message: 'no such file',
          });
        },
      },
    })(attempt());
    expect(summary).toMatchObject({
      status: 'failed',
      stop_reason: 'task_error',
      reward: null,
      failure: { class: 'task', phase: 'grade', retryable: false },
      grades: { exact: 1 },
    });
  });

  it('fails without a retry when the agent never called the model', async () => {
    const { summary, payload } = await processor(async () => agentDone())(attempt());
    expect(summary).toMatchObject({
      status: 'failed',
      stop_reason: 'agent_error',
      reward: null,
      failure: { class: 'agent' },
    });
    expect(payload).toBeNull();
  });

  it('rejects with the reason of its signal, and has closed its session by then', async () => {
    const controller = new AbortController();
    let session: AgentContext['session'] | undefined;
    const running = processor(async (context) => {
      session = context.session;
      await converse(1)(context);
      controller.abort(new AbortCause('cancelled'));
      return new Promise(() => {});
    })(attempt({ signal: controller.signal }));
    await expect(running).rejects.toMatchObject({ kind: 'cancelled' });
    await expect(
      session?.chat(
        { messages: [{ role: 'user', content: 'x' }] },
        { agent_id: 'main', role: 'main', signal: new AbortController().signal },
      ),
    ).rejects.toThrow();
  });
});
