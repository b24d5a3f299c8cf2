import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  ClaudeCliError,
  claudeCliPackage,
  claudeCliVersion,
  findClaudeCli,
  readClaudeCliVersion,
} from '../../src/sandbox/index.ts';

test('finds the binary of the platform package, at the version this project is made for', async () => {
  const path = await findClaudeCli();
  expect(path).toContain(claudeCliPackage());
  expect(await readClaudeCliVersion(path)).toBe(claudeCliVersion);
});

test('takes the binary it is told to take', async () => {
  expect(await findClaudeCli(process.execPath)).toMatch(/node/);
});

test('says in one line what is missing', async () => {
  const directory = await mkdtemp(join(tmpdir(), `rp-cli-${process.pid}-`));
  try {
    const plain = join(directory, 'plain');
    await writeFile(plain, '#!/bin/sh\n', { mode: 0o644 });
    await expect(findClaudeCli('/nonexistent/claude')).rejects.toThrow(
      /^the Claude Code CLI at \/nonexistent\/claude is not there/,
    );
    await expect(findClaudeCli(directory)).rejects.toThrow('is not a file');
    // Root may run only what somebody may run.
    await expect(findClaudeCli(plain)).rejects.toBeInstanceOf(ClaudeCliError);
    const mute = join(directory, 'mute');
    await writeFile(mute, '#!/bin/sh\necho nothing\n', { mode: 0o755 });
    await expect(readClaudeCliVersion(mute)).rejects.toThrow('does not say its version');
  } finally {
    await rm(directory, { recursive: true });
  }
});
