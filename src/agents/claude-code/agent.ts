import { EpisodeError } from '../../contracts/index.ts';
import type { GatewaySession } from '../../gateway/session.ts';
import type { Sandbox, SandboxProcess } from '../../sandbox/sandbox.ts';
import type { Agent, AgentContext, AgentOutcome } from '../agent.ts';
import type { StartGate } from '../start-gate.ts';
import { readCliOutput, type CliOutput } from './cli-output.ts';
import { claudeCodeCommand, promptLine } from './command.ts';
import { mapEnding } from './ending.ts';
import { claudeCodeAhead, WaitingCli } from './waiting-cli.ts';
import { watchCli } from './watch-cli.ts';

export interface ClaudeCodeAgentOptions {
  /** Bounds CLI starts in this process. */
  readonly startGate: StartGate;
  /** Whether the CLI is started in sandboxes that wait for their episode. Default: false. */
  readonly startAhead?: boolean;
  /** Milliseconds a CLI may live on after its result event. Default: 15,000. */
  readonly lingerMs?: number;
}

/** A start that made no call in this time does not keep others waiting any longer. */
const startGateMaxMs = 60_000;
const startPollMs = 25;
/** In less memory a waiting CLI could take from the set-up what it needs. */
const leastMemoryMb = 512;

/** Leaves the start gate when the first model request has come in, or when told so. */
function leaveAtFirstCall(session: GatewaySession, leave: () => void): Disposable {
  const deadline = performance.now() + startGateMaxMs;
  const timer = setInterval(() => {
    const stats = session.stats();
    const called = stats.calls > 0 || stats.longest_call_ms > 0;
    if (!called && performance.now() < deadline) return;
    clearInterval(timer);
    leave();
  }, startPollMs);
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      leave();
    },
  };
}

/** Tells an agent that died from a sandbox that died around it. */
async function throwIfSandboxGone(sandbox: Sandbox): Promise<void> {
  if ((await sandbox.state()) !== 'gone') return;
  throw new EpisodeError({
    class: 'infra',
    phase: 'agent',
    code: 'sandbox_gone',
    message: 'the sandbox vanished while the agent ran',
  });
}

/** A CLI that acts, or is about to: its prompt is not sent yet. */
interface Actor {
  readonly process: SandboxProcess;
  readonly output: CliOutput;
  readonly secrets: readonly string[];
  readonly sendPrompt: () => void;
  readonly metrics: AgentOutcome['metrics'];
}

/** The CLI that was started ahead, when it can be told from no other one; else it is ended. */
async function takeWaiting(context: AgentContext, sandbox: Sandbox): Promise<Actor | null> {
  const waiting = sandbox.warm?.ahead;
  if (!(waiting instanceof WaitingCli)) return null;
  const { session, log } = context;
  if (!(await waiting.serves(sandbox, context.limits))) {
    log.debug(
      { alive: waiting.alive() },
      'the CLI started ahead does not fit what is here now: another is started',
    );
    await waiting[Symbol.asyncDispose]();
    return null;
  }
  const { process, output, bearer } = waiting;
  session.adopt(bearer);
  return {
    process,
    output,
    secrets: [session.bearer, bearer],
    sendPrompt: () => process.stdin.end(promptLine(context.task.prompt)),
    metrics: { warm_cli: true },
  };
}

async function startFresh(context: AgentContext, sandbox: Sandbox, cliPath: string): Promise<Actor> {
  const { session, signal } = context;
  const command = claudeCodeCommand({
    cliPath,
    prompt: context.task.prompt,
    limits: context.limits,
    episodeId: context.episode_id,
    attempt: context.attempt,
    gatewaySocket: sandbox.gateway_socket,
    bearer: session.bearer,
    home: sandbox.agent_home,
  });
  const process = await sandbox.spawn(command.argv, {
    user: 'agent',
    cwd: sandbox.workdir,
    env: command.env,
    signal,
  });
  const secrets = [session.bearer];
  // A CLI that is already dead does not read its prompt; its exit tells more than the broken pipe.
  process.stdin.on('error', () => {});
  return {
    process,
    output: readCliOutput(process, secrets),
    secrets,
    sendPrompt: () => process.stdin.end(command.stdin),
    metrics: {},
  };
}

async function runCli(
  context: AgentContext,
  sandbox: Sandbox,
  options: ClaudeCodeAgentOptions,
): Promise<AgentOutcome> {
  const { session, signal } = context;
  if (sandbox.cli_path === null) {
    throw (
      sandbox.no_cli ??
      new EpisodeError({
        class: 'infra',
        phase: 'agent',
        code: 'cli_missing',
        message: 'the sandbox has no Claude Code CLI: this worker found none to mount',
        retryable: false,
      })
    );
  }
  const waiting = await takeWaiting(context, sandbox);
  if (waiting !== null) return act(context, sandbox, waiting, options);
  using _start = leaveAtFirstCall(session, await options.startGate.enter(signal));
  return await act(context, sandbox, await startFresh(context, sandbox, sandbox.cli_path), options);
}

async function act(
  context: AgentContext,
  sandbox: Sandbox,
  actor: Actor,
  options: ClaudeCodeAgentOptions,
): Promise<AgentOutcome> {
  const { session, signal, log } = context;
  const { output, secrets } = actor;
  await using cli = actor.process;
  signal.throwIfAborted();
  actor.sendPrompt();

  const { exitCode, lingered } = await watchCli(cli, signal, output.resultSeen, options.lingerMs ?? 15_000);
  await output.drain();
  signal.throwIfAborted();

  const { calls } = session.stats();
  const progress = output.progress();
  if (exitCode === null || exitCode === 137) await throwIfSandboxGone(sandbox);
  if (calls === 0 && !progress.started && (exitCode === 126 || exitCode === 127)) {
    throw new EpisodeError({
      class: 'task',
      phase: 'agent',
      code: 'cli_not_runnable',
      message: `the Claude Code CLI does not run in this image (exit ${exitCode}): ${output.stderr().trim()}`,
    });
  }
  const lines = output.lines();
  log.debug({ exitCode, lingered, ...lines }, 'claude code ended');
  const ending = mapEnding({
    exitCode,
    lingered,
    result: progress.result,
    oversizedLines: lines.oversized,
    calls,
    stderrTail: output.stderr(),
    secrets,
  });
  return {
    ...ending,
    exit_code: exitCode,
    metrics: {
      ...actor.metrics,
      tool_calls: progress.tool_calls,
      agent_output_bytes: lines.bytes,
      ...(exitCode === null || exitCode === 0 ? {} : { agent_exit_code: exitCode }),
      ...(progress.api_retries > 0 ? { api_retries: progress.api_retries } : {}),
      ...(lines.garbage > 0 ? { garbage_lines: lines.garbage } : {}),
      ...(lines.oversized > 0 ? { oversized_lines: lines.oversized } : {}),
      ...(lingered ? { agent_lingered: true } : {}),
      ...((progress.result?.permission_denials.length ?? 0) > 0
        ? { permission_denials: progress.result?.permission_denials.length ?? 0 }
        : {}),
    },
  };
}

/**
 * The real Claude Code CLI in a sandbox, as the unprivileged agent user, with the attempt's Unix socket as its only way to
 * a model. Rejects with EpisodeError `cli_missing` (infra, not retried), `cli_not_runnable` (task), `sandbox_gone`
 * (infra), or the signal's reason; however the CLI ends otherwise is an outcome.
 */
export function createClaudeCodeAgent(options: ClaudeCodeAgentOptions): Agent {
  return {
    name: 'claude-code',
    ahead(task, limits) {
      if (options.startAhead !== true || task.kind !== 'claude_code') return null;
      return task.sandbox.memory_mb < leastMemoryMb ? null : claudeCodeAhead(limits, options.startGate);
    },
    async run(context) {
      if (context.sandbox === null) throw new Error('the Claude Code agent needs a sandbox');
      try {
        return await runCli(context, context.sandbox, options);
      } catch (error) {
        // A provider may tell of an abort in words of its own.
        context.signal.throwIfAborted();
        throw error;
      }
    },
  };
}
