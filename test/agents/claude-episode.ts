import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createClaudeCodeAgent,
  createStartGate,
  type AgentOutcome,
  type StartGate,
} from '../../src/agents/index.ts';
import {
  claudeCodeTaskSchema,
  resolveLimits,
  resolveSampling,
  type CallRecord,
  type EffectiveLimits,
  type Verify,
} from '../../src/contracts/index.ts';
import {
  createGateway,
  type Gateway,
  type GatewaySession,
  type SessionStats,
} from '../../src/gateway/index.ts';
import { createCommandGrader, type Grade } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { startScriptedPolicy, type Script, type ScriptedPolicy } from '../../src/policy/index.ts';
import { findClaudeCli, type Sandbox, type SandboxProviderName } from '../../src/sandbox/index.ts';
import { openSandbox, type OpenOptions } from '../grading/open-sandbox.ts';

/** A scripted policy, a gateway in front of it, and the real CLI to act in sandboxes. */
export interface ClaudeStage extends AsyncDisposable {
  readonly policy: ScriptedPolicy;
  readonly cli: string;
  open(provider: SandboxProviderName, input: EpisodeInput): Promise<ClaudeEpisode>;
}

interface EpisodeInput extends Pick<OpenOptions, 'network' | 'egress'> {
  readonly prompt: string;
  readonly limits?: Partial<EffectiveLimits>;
  readonly startGate?: StartGate;
  /** Default: the real one. null: none is mounted. */
  readonly cli?: string | null;
}

/** One attempt, in a sandbox of its own. */
export interface ClaudeEpisode extends AsyncDisposable {
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly session: GatewaySession;
  run(signal?: AbortSignal): Promise<AgentOutcome>;
  grade(verify: Partial<Verify> & { commands: string[] }): Promise<Grade>;
  /** Ends the session. */
  finish(): Promise<{ calls: readonly CallRecord[]; stats: SessionStats }>;
}

export interface StageOptions {
  readonly scripts: readonly Script[];
  /** Base URL to reach the policy at. Default: its own. */
  readonly through?: (policyUrl: string) => Promise<string>;
}

let count = 0;

async function openEpisode(
  gateway: Gateway,
  realCli: string,
  provider: SandboxProviderName,
  input: EpisodeInput,
): Promise<ClaudeEpisode> {
  count += 1;
  const id = `e${process.pid}x${count}`;
  const limits = resolveLimits(input.limits ?? {});
  const session = await gateway.open({
    episode_id: id,
    attempt: 1,
    nonce: id,
    sampling: resolveSampling(),
    limits,
  });
  try {
    const cliBinary = input.cli === undefined ? realCli : input.cli;
    const opened = await openSandbox(provider, {
      ...input,
      gatewayDir: session.socket_dir ?? '',
      cliBinary,
    });
    const { sandbox } = opened;
    const agent = createClaudeCodeAgent({ startGate: input.startGate ?? createStartGate() });
    const task = (
      verify: Partial<Verify> & { commands: string[] },
    ): ReturnType<typeof claudeCodeTaskSchema.parse> =>
      claudeCodeTaskSchema.parse({ task_key: id, kind: 'claude_code', prompt: input.prompt, verify });
    const context = { limits, log: silentLogger, environment: null };
    return {
      id,
      sandbox,
      session,
      run: (signal = new AbortController().signal) =>
        agent.run({
          ...context,
          task: task({ commands: ['true'] }),
          session,
          sandbox,
          episode_id: id,
          attempt: 1,
          signal,
        }),
      grade: async (verify) => {
        const { signal } = new AbortController();
        return createCommandGrader().grade({
          ...context,
          task: task(verify),
          sandbox,
          final_answer: null,
          conversation: [],
          signal,
        });
      },
      finish: async () => ({ calls: await session.finish(), stats: session.stats() }),
      [Symbol.asyncDispose]: async () => {
        await session[Symbol.asyncDispose]();
        await opened[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await session[Symbol.asyncDispose]();
    throw error;
  }
}

export async function openStage(options: StageOptions): Promise<ClaudeStage> {
  const cli = await findClaudeCli();
  const policy = await startScriptedPolicy({ scripts: options.scripts, seed: 1 });
  const runtimeDir = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
  // Users of sandboxes go through it to their own session's directory.
  await chmod(runtimeDir, 0o711);
  const url = (await options.through?.(policy.url)) ?? policy.url;
  const gateway = await createGateway({
    policy: { urls: [url], model: policy.model },
    runtimeDir,
    log: silentLogger,
  });
  return {
    policy,
    cli,
    open: (provider, input) => openEpisode(gateway, cli, provider, input),
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await policy[Symbol.asyncDispose]();
      await rm(runtimeDir, { recursive: true, force: true });
    },
  };
}
