import { parseScripts, type Script } from '../../src/policy/index.ts';

/** A call of the Bash tool in a script. */
export function bash(command: string): unknown {
  return { name: 'Bash', arguments: { command, description: 'Run it' } };
}

/** A task that a script of two turns solves. */
export function smallTask(key: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    task_key: key,
    kind: 'claude_code',
    prompt: `Task ${key}. Write 42 into answer.txt.`,
    verify: { commands: ['test "$(cat answer.txt)" = 42'] },
    ...more,
  };
}

/** Plays every small task, and `more` before it. */
export function smallScripts(more: readonly { match: string; turns: unknown[] }[] = []): readonly Script[] {
  return parseScripts({
    schema: 'rollpool.scripts/1',
    scripts: [
      ...more,
      {
        match: 'Write 42 into answer.txt',
        turns: [{ tool_calls: [bash('echo 42 > answer.txt')] }, { text: 'The answer is written.' }],
      },
    ],
  });
}
