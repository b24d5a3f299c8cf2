import { expect, vi } from 'vitest';
import { runProgram } from '../../src/cli/program.ts';

export interface Invoked {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `rollpool ...` within this process, with `env` as all it finds of its own in the environment. */
export async function invoke(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Invoked> {
  let stdout = '';
  let stderr = '';
  for (const name of Object.keys(process.env)) {
    if (/^(ROLLPOOL_|FLEET_|E2B_|REDIS_URL|DOCKER_HOST|XDG_)/.test(name)) vi.stubEnv(name, undefined);
  }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const out = vi
    .spyOn(process.stdout, 'write')
    .mockImplementation((text) => ((stdout += String(text)), true));
  const err = vi
    .spyOn(process.stderr, 'write')
    .mockImplementation((text) => ((stderr += String(text)), true));
  try {
    const code = await runProgram(args);
    return { code, stdout, stderr };
  } finally {
    process.exitCode = undefined;
    out.mockRestore();
    err.mockRestore();
    vi.unstubAllEnvs();
  }
}

/** One line on stderr that has all of `words`, exit code 2, nothing on stdout. */
export function expectOneLine(invoked: Invoked, ...words: string[]): void {
  expect(invoked).toMatchObject({ code: 2, stdout: '' });
  expect(invoked.stderr).toMatch(/^rollpool: [^\n]+\n$/);
  for (const word of words) expect(invoked.stderr).toContain(word);
}
