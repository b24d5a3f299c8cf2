import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { EpisodeError } from '../../contracts/index.ts';
import type { GatewaySession } from '../../gateway/session.ts';
import type { Sandbox, SandboxProcess } from '../../sandbox/sandbox.ts';
import type { Agent, AgentContext, AgentOutcome } from '../agent.ts';
import type { StartGate } from '../start-gate.ts';
import { claudeCodeCommand } from './command.ts';
import { mapEnding } from './ending.ts';
import { createOutputTail } from './output-tail.ts';
import { advance, noProgress, type Progress } from './progress.ts';
import { createStreamJsonParser } from './stream-json.ts';

export interface ClaudeCodeAgentOptions {
  /** Bounds CLI starts in this process. */
  readonly startGate: StartGate;
  /** Milliseconds a CLI may live on after its result event. Default: 15,000. */
  readonly lingerMs?: number;
}

/** A start that made no call in this time does not keep others waiting any longer. */
const startGateMaxMs = 60_000;
const startPollMs = 25;
/** Output of a process that has exited: a descendant may hold the pipe open for ever. */
const drainMs = 2_000;
const killMs = 15_000;
const stderrTailChars = 2_000;

/** Resolves with the promise's value, or with `otherwise` after `ms`. */
async function within<T, U>(ms: number, promise: Promise<T>, otherwise: U): Promise<T | U> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<U>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

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

function readAll(stream: Readable, onChunk: (chunk: Uint8Array) => void): Promise<unknown> {
  stream.on('data', onChunk);
  // An output that breaks off is told by the exit code.
  stream.on('error', () => {});
  return stream.readableEnded || stream.destroyed ? Promise.resolve() : once(stream, 'close').catch(() => {});
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

interface Watched {
  readonly exitCode: number | null;
  readonly lingered: boolean;
}

/** Waits for the CLI's end; ends it when the signal aborts, or when it lives on long after its last word. */
async function watchProcess(
  cli: SandboxProcess,
  signal: AbortSignal,
  resultSeen: Promise<void>,
  lingerMs: number,
): Promise<Watched> {
  let onAbort = (): void => {};
  const aborted = new Promise<'aborted'>((resolve) => {
    onAbort = () => resolve('aborted');
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  const exited = cli.exited.then((exitCode): Watched => ({ exitCode, lingered: false }));
  try {
    const first = await Promise.race([exited, aborted, resultSeen.then(() => 'result' as const)]);
    if (first !== 'result') {
      if (first !== 'aborted') return first;
    } else {
      const second = await within(lingerMs, Promise.race([exited, aborted]), 'lingers' as const);
      if (typeof second === 'object') return second;
      if (second === 'lingers') {
        await within(killMs, cli.kill(), undefined);
        return { exitCode: null, lingered: true };
      }
    }
    // The episode kills whatever else the agent left behind; this is the CLI and its descendants.
    await within(killMs, cli.kill(), undefined);
    throw signal.reason;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function runCli(
  context: AgentContext,
  sandbox: Sandbox,
  options: ClaudeCodeAgentOptions,
): Promise<AgentOutcome> {
  const { session, signal, log } = context;
  if (sandbox.cli_path === null) {
    throw new EpisodeError({
      class: 'infra',
      phase: 'agent',
      code: 'cli_missing',
      message: 'the sandbox has no Claude Code CLI: this worker found none to mount',
      retryable: false,
    });
  }
  const command = claudeCodeCommand({
    cliPath: sandbox.cli_path,
    prompt: context.task.prompt,
    limits: context.limits,
    episodeId: context.episode_id,
    attempt: context.attempt,
    gatewaySocket: sandbox.gateway_socket,
    bearer: session.bearer,
    home: sandbox.agent_home,
  });

  using _start = leaveAtFirstCall(session, await options.startGate.enter(signal));
  await using cli = await sandbox.spawn(command.argv, {
    user: 'agent',
    cwd: sandbox.workdir,
    env: command.env,
    signal,
  });

  let progress: Progress = noProgress;
  let sawResult = (): void => {};
  const resultSeen = new Promise<void>((resolve) => {
    sawResult = resolve;
  });
  const parser = createStreamJsonParser((event) => {
    progress = advance(progress, event);
    if (progress.result !== null) sawResult();
  });
  const stderr = createOutputTail(stderrTailChars, [session.bearer]);
  const drained = Promise.all([
    readAll(cli.stdout, (chunk) => parser.push(chunk)),
    readAll(cli.stderr, (chunk) => stderr.push(chunk)),
  ]);
  // A CLI that is already dead does not read its prompt; its exit tells more than the broken pipe.
  cli.stdin.on('error', () => {});
  cli.stdin.end(command.stdin);

  const { exitCode, lingered } = await watchProcess(cli, signal, resultSeen, options.lingerMs ?? 15_000);
  await within(drainMs, drained, undefined);
  parser.end();
  signal.throwIfAborted();

  const { calls } = session.stats();
  if (exitCode === null || exitCode === 137) await throwIfSandboxGone(sandbox);
  if (calls === 0 && !progress.started && (exitCode === 126 || exitCode === 127)) {
    throw new EpisodeError({
      class: 'task',
      phase: 'agent',
      code: 'cli_not_runnable',
      message: `the Claude Code CLI does not run in this image (exit ${exitCode}): ${stderr.text().trim()}`,
    });
  }
  const lines = parser.stats();
  log.debug({ exitCode, lingered, ...lines }, 'claude code ended');
  const ending = mapEnding({
    exitCode,
    lingered,
    result: progress.result,
    oversizedLines: lines.oversized,
    calls,
    stderrTail: stderr.text(),
    secrets: [session.bearer],
  });
  return {
    ...ending,
    exit_code: exitCode,
    metrics: {
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
