import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  claudeCodeCommand,
  sessionUuid,
  type ClaudeCodeInput,
} from '../../../src/agents/claude-code/command.ts';
import { resolveLimits } from '../../../src/contracts/index.ts';

const input: ClaudeCodeInput = {
  cliPath: '/opt/claude',
  prompt: 'Fix the median.',
  limits: resolveLimits({
    max_turns: 7,
    max_output_tokens: 1234,
    tool_seconds: 45,
    turn_seconds: 100,
    hold_seconds: 200,
  }),
  episodeId: 'e0123',
  attempt: 2,
  gatewaySocket: '/gw/gw.sock',
  bearer: 'secret-bearer',
  home: '/home/agent',
};

const option = (argv: readonly string[], name: string): string | undefined => argv[argv.indexOf(name) + 1];

describe('the command of a Claude Code episode', () => {
  const { argv, env, stdin } = claudeCodeCommand(input);

  it('runs headless, with six tools and nothing of the repository’s settings', () => {
    expect(argv.slice(0, 5)).toEqual(['/opt/claude', '-p', '--output-format', 'stream-json', '--verbose']);
    expect(option(argv, '--tools')).toBe('Bash,Read,Edit,Write,Glob,Grep');
    expect(option(argv, '--setting-sources')).toBe('');
    expect(argv).toEqual(
      expect.arrayContaining([
        '--strict-mcp-config',
        '--disable-slash-commands',
        '--no-session-persistence',
        '--dangerously-skip-permissions',
      ]),
    );
  });

  it('always bounds the turns', () => {
    expect(option(argv, '--max-turns')).toBe('7');
  });

  it('names the session by the attempt: stable for one, different for another', () => {
    expect(option(argv, '--session-id')).toBe(sessionUuid('e0123', 2));
    expect(sessionUuid('e0123', 2)).toMatch(
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(new Set([sessionUuid('e0123', 1), sessionUuid('e0123', 2), sessionUuid('e0124', 2)]).size).toBe(3);
  });

  it('reaches the model over the Unix socket with the attempt’s bearer, and has no other credential', () => {
    expect(env).toMatchObject({
      ANTHROPIC_UNIX_SOCKET: '/gw/gw.sock',
      ANTHROPIC_BASE_URL: 'http://localhost',
      ANTHROPIC_AUTH_TOKEN: 'secret-bearer',
      HOME: '/home/agent',
    });
    expect(Object.keys(env).filter((name) => /KEY|SECRET/.test(name))).toEqual([]);
    expect(argv.join(' ')).not.toContain('secret-bearer');
  });

  it('takes its limits from the episode, and lets the gateway’s deadlines ring first', () => {
    expect(env).toMatchObject({
      CLAUDE_CODE_MAX_OUTPUT_TOKENS: '1234',
      BASH_DEFAULT_TIMEOUT_MS: '45000',
      BASH_MAX_TIMEOUT_MS: '45000',
    });
    expect(Number(env['API_TIMEOUT_MS'])).toBeGreaterThan(300_000);
    expect(env['CLAUDE_STREAM_IDLE_TIMEOUT_MS']).toBe(env['API_TIMEOUT_MS']);
  });

  it('keeps every prompt off the command line, and a slash from being a command', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), fc.boolean(), (text, slash) => {
        const prompt = slash ? `/${text}` : text;
        const made = claudeCodeCommand({ ...input, prompt });
        expect(made.argv).toEqual(argv);
        expect(made.stdin.startsWith('/')).toBe(false);
        expect(made.stdin.replace(/^\n(?=\/)/, '')).toBe(prompt.replace(/^\n(?=\/)/, ''));
      }),
    );
    expect(stdin).toBe('Fix the median.');
    expect(claudeCodeCommand({ ...input, prompt: '/help me' }).stdin).toBe('\n/help me');
  });
});
