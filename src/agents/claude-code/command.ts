import { createHash } from 'node:crypto';
import type { EffectiveLimits } from '../../contracts/index.ts';

/** What a CLI is told at its start, apart from its prompt. */
export interface CliStart {
  /** Path of the CLI inside the sandbox. */
  readonly cliPath: string;
  readonly limits: EffectiveLimits;
  /** A UUID. It names the CLI's own records in its home and goes to the gateway; nobody else reads it. */
  readonly sessionId: string;
  /** Path of the gateway's Unix socket inside the sandbox. */
  readonly gatewaySocket: string;
  /** The attempt's own credential; the policy's key never comes near the sandbox. */
  readonly bearer: string;
  /** HOME of the agent user. */
  readonly home: string;
}

export type ClaudeCodeInput = Omit<CliStart, 'sessionId'> & {
  readonly prompt: string;
  readonly episodeId: string;
  /** 1-based. */
  readonly attempt: number;
};

export interface CliCommand {
  readonly argv: readonly string[];
  /** The whole environment apart from PATH, which the sandbox sets. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ClaudeCodeCommand extends CliCommand {
  readonly stdin: string;
}

/** The model name the CLI is told. An unknown name keeps it from assuming features of a model it knows. */
const modelName = 'policy';

/** Tools that keep an episode one linear conversation: no subagents, no web, nothing loaded later. */
const tools = 'Bash,Read,Edit,Write,Glob,Grep';

/** A UUID that is the same for the same attempt and different for any other. */
export function sessionUuid(episodeId: string, attempt: number): string {
  const hex = createHash('sha256')
    .update(JSON.stringify([episodeId, attempt]))
    .digest('hex');
  const variant = ((parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

/** The prompt as the CLI gets it: one that begins with a known slash command makes no model call at all. */
function promptText(prompt: string): string {
  return prompt.startsWith('/') ? `\n${prompt}` : prompt;
}

/**
 * The headless command with its prompt on stdin, since `--tools` and `--settings` would swallow it as an argument.
 */
export function claudeCodeCommand(input: ClaudeCodeInput): ClaudeCodeCommand {
  const sessionId = sessionUuid(input.episodeId, input.attempt);
  return { ...command({ ...input, sessionId }, []), stdin: promptText(input.prompt) };
}

/** The same command for a CLI that waits for its prompt, which is to come as `promptLine` has it. */
export function waitingCommand(input: CliStart): CliCommand {
  return command(input, ['--input-format', 'stream-json']);
}

/**
 * The line that gives a waiting CLI its prompt; stdin has to end after it. As a string the prompt makes the same requests
 * as one on the stdin of a fresh CLI; as a block it would stay one in every later request (measured, 2.1.332).
 */
export function promptLine(prompt: string): string {
  // Half a surrogate pair is lost on stdin, and would not be in JSON.
  const content = Buffer.from(promptText(prompt)).toString('utf8');
  return `${JSON.stringify({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null, session_id: '' })}\n`;
}

/**
 * The headless command of CLI 2.1.332 under which a conversation only ever grows at its end, no side call is made and
 * nothing of the task's own repository configures the agent (facts: claude-code 9 and 11).
 */
function command(input: CliStart, promptFormat: readonly string[]): CliCommand {
  const { limits } = input;
  // The gateway owns the deadlines of a call: the CLI's own clocks must never be the first to ring.
  const patienceMs = String(Math.ceil((limits.turn_seconds + limits.hold_seconds + 60) * 1000));
  const toolMs = String(Math.ceil(limits.tool_seconds * 1000));
  return {
    argv: [
      input.cliPath,
      '-p',
      ...promptFormat,
      '--output-format',
      'stream-json',
      '--verbose',
      '--model',
      modelName,
      '--dangerously-skip-permissions',
      '--tools',
      tools,
      '--strict-mcp-config',
      '--setting-sources',
      '',
      '--settings',
      '{"includeCoAuthoredBy":false}',
      '--disable-slash-commands',
      '--no-session-persistence',
      '--max-turns',
      String(limits.max_turns),
      '--session-id',
      input.sessionId,
    ],
    env: {
      HOME: input.home,
      LANG: 'C.UTF-8',
      TERM: 'dumb',
      // Lets root skip permissions, which the local sandbox may be.
      IS_SANDBOX: '1',
      // The socket is only used together with a base URL and a bearer (facts: claude-code 11).
      ANTHROPIC_UNIX_SOCKET: input.gatewaySocket,
      ANTHROPIC_BASE_URL: 'http://localhost',
      ANTHROPIC_AUTH_TOKEN: input.bearer,
      API_TIMEOUT_MS: patienceMs,
      CLAUDE_STREAM_IDLE_TIMEOUT_MS: patienceMs,
      BASH_DEFAULT_TIMEOUT_MS: toolMs,
      BASH_MAX_TIMEOUT_MS: toolMs,
      CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(limits.max_output_tokens),
      // Keeps the CLI's scratch files out of a /tmp shared with others.
      CLAUDE_CODE_TMPDIR: `${input.home}/tmp`,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_PROMPT_CACHING: '1',
      CLAUDE_CODE_ATTRIBUTION_HEADER: '0',
      CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1',
      CLAUDE_CODE_EFFORT_LEVEL: 'unset',
      MAX_THINKING_TOKENS: '0',
      ENABLE_TOOL_SEARCH: 'false',
      DISABLE_AUTO_COMPACT: '1',
      DISABLE_COMPACT: '1',
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
      CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',
      CLAUDE_CODE_MAX_RETRIES: '2',
      CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
      CLAUDE_CODE_DISABLE_CLAUDE_MDS: '1',
      CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS: '1',
      CLAUDE_CODE_DISABLE_ATTACHMENTS: '1',
      CLAUDE_CODE_DISABLE_FILE_MENTIONS: '1',
      CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY: '1',
      CLAUDE_CODE_GATEWAY_HINT_HEADERS: '1',
      CLAUDE_CODE_DISABLE_REFUSAL_RETRY: '1',
    },
  };
}
