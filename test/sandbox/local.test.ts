import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import { sandboxContract } from './contract.ts';

sandboxContract('local', {
  create: () => createSandboxProvider('local'),
  surelyFound: process.getuid?.() === 0,
  vanish: async (sandbox) => {
    await rm(dirname(sandbox.workdir), { recursive: true, force: true });
  },
  leftovers: async () =>
    (await readdir(tmpdir())).filter((name) => name.startsWith(`rollpool-sandbox-${process.pid}-`)),
});
