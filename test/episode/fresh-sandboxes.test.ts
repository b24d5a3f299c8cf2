import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentDone, createInProcessAgent } from '../../src/agents/index.ts';
import {
  resolveLimits,
  taskSchema,
  type EffectiveLimits,
  type EpisodeJob,
} from '../../src/contracts/index.ts';
import { freshSandboxes, type FreshSandboxes } from '../../src/episode/fresh-sandboxes.ts';
import { createEpisodeProcessor } from '../../src/episode/index.ts';
import { createGateway, type Gateway } from '../../src/gateway/index.ts';
import { createCommandGrader } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { AbortCause, type EpisodeAttempt } from '../../src/queue/processor.ts';
import { createSandboxProvider, type SandboxProvider } from '../../src/sandbox/index.ts';
import { docker, haveDocker } from '../sandbox/docker-daemon.ts';
import { testPool } from '../sandbox/fixture.ts';
import { until } from '../support/wait.ts';

const job: EpisodeJob = {
  schema: 1,
  run_id: 'r',
  batch_id: '0',
  episode_id: 'e0',
  group_id: 'g0',
  group_size: 1,
  sample_index: 0,
  task_key: 't',
  task_ref: 'x',
  sampling: {},
  limits: {},
  priority: 0,
};

let attempts = 0;
function attemptOf(task: object, signal = new AbortController().signal): EpisodeAttempt {
  attempts += 1;
  const verify = { commands: ['true'] };
  return {
    job,
    task: taskSchema.parse({ task_key: 't', kind: 'claude_code', prompt: 'count with me', verify, ...task }),
    attempt: 1,
    nonce: `f${process.pid}x${attempts}x${Date.now().toString(36)}`,
    worker: 'w',
    lane: 'claude_code-docker',
    queued_at: Date.now(),
    run: { sampling: {}, limits: {} },
    signal,
  };
}

async function containers(): Promise<Record<string, string>[]> {
  const label = [`io.rollpool.pool=${testPool}`];
  const found = await docker.listContainers({ all: true, filters: { label } });
  return found.map(({ Labels }) => Labels);
}

describe.skipIf(!haveDocker)('sandboxes beside an attempt’s own', () => {
  let provider: SandboxProvider;
  beforeAll(() => {
    provider = createSandboxProvider('docker');
  });
  afterAll(async () => {
    expect(await containers()).toEqual([]);
    await provider?.[Symbol.asyncDispose]();
  });
  const fresh = (attempt: EpisodeAttempt, limits: Partial<EffectiveLimits> = {}): FreshSandboxes =>
    freshSandboxes(attempt, {
      provider,
      limits: resolveLimits(limits),
      pool: testPool,
      queued: (boot) => boot(),
      log: silentLogger,
    });

  it('have the task’s files and set-up, no gateway, and labels of the same episode', async () => {
    const attempt = attemptOf({ files: { a: 'x' }, setup: ['cp a b'] });
    {
      await using made = fresh(attempt);
      const sandbox = await made.make();
      const found = await sandbox.exec(
        'cat a b; test ! -e /gw/gw.sock && test ! -e /opt/rollpool/claude && stat -c %U a b',
        {
          timeout_ms: 30_000,
        },
      );
      expect(found.stdout).toBe('xxagent\nagent\n');
      const [labels] = await containers();
      expect(labels).toMatchObject({
        'io.rollpool.run': 'r',
        'io.rollpool.episode': 'e0',
        'io.rollpool.nonce': `${attempt.nonce}-g1`,
      });
    }
    expect(await containers()).toEqual([]);
  });

  it('have a deadline of their own to boot, and say in whose set-up the task is at fault', async () => {
    await using slow = fresh(attemptOf({}), { boot_seconds: 0.01 });
    await expect(slow.make()).rejects.toMatchObject({ failure: { class: 'infra', code: 'boot_timeout' } });
    await using broken = fresh(attemptOf({ setup: ['test ! -e /gw || exit 0; exit 3'] }));
    await expect(broken.make()).rejects.toMatchObject({
      failure: {
        class: 'task',
        code: 'setup_failed',
        message: expect.stringContaining('in a fresh sandbox'),
      },
    });
  });

  it('end with their attempt when it is cancelled in the middle of one', async () => {
    const controller = new AbortController();
    {
      await using made = fresh(attemptOf({ setup: ['touch here; sleep 100'] }, controller.signal));
      const making = made.make();
      making.catch(() => undefined);
      await until(async () => (await containers()).length === 1, 'it is being made');
      controller.abort(new AbortCause('cancelled'));
      await expect(making).rejects.toMatchObject({ kind: 'cancelled' });
    }
    await until(async () => (await containers()).length === 0, 'it is gone');
  });
});

describe.skipIf(!haveDocker)('an episode whose task is graded in a fresh sandbox', () => {
  let policy: ScriptedPolicy;
  let gateway: Gateway;
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
    policy = await startScriptedPolicy({ scripts: [{ match: 'count with me', turns: [{ text: 'one' }] }] });
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

  it('is graded on its artifacts alone, and leaves no sandbox', async () => {
    await using provider = createSandboxProvider('docker');
    const agent = createInProcessAgent(async ({ session, sandbox, signal }) => {
      const messages = [{ role: 'user' as const, content: 'count with me' }];
      const answer = await session.chat({ messages }, { agent_id: 'main', role: 'main', signal });
      answer.delivered(true);
      const acted = await sandbox!.exec(
        'echo 42 > answer; echo 1 > other; (setsid sleep 100 &) >/dev/null 2>&1',
        {
          user: 'agent',
          timeout_ms: 30_000,
        },
      );
      expect(acted.exit_code).toBe(0);
      return agentDone('done');
    });
    const run = createEpisodeProcessor({
      sessions: gateway,
      partsFor: () => ({ provider, agent, grader: createCommandGrader(), cli_binary: null }),
      policy: { model: policy.model, logprobs_mode: 'processed', version_source: 'none' },
      limits: {},
      sampling: {},
      pool: testPool,
      log: silentLogger,
    });
    const commands = ['test "$(cat answer)" = 42 && test ! -e other', 'test -f given'];
    const { summary } = await run(
      attemptOf({
        files: { given: '' },
        verify: { commands, sandbox: 'fresh', artifacts: ['answer'], reward: 'fraction' },
      }),
    );
    expect(summary.failure).toBeNull();
    expect(summary).toMatchObject({
      status: 'completed',
      reward: 1,
      metrics: { fresh_sandbox: true, artifact_files: 1, processes_left: 1 },
    });
    expect(await containers()).toEqual([]);
  });
});
