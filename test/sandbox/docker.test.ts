import { describe } from 'vitest';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import { sandboxContract } from './contract.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { testPool } from './fixture.ts';

describe.runIf(haveDocker)('docker', () => {
  sandboxContract('docker', {
    create: () => createSandboxProvider('docker'),
    surelyFound: true,
    vanish: async (sandbox) => {
      await docker.getContainer(sandbox.id).remove({ force: true });
    },
    leftovers: async () =>
      (await docker.listContainers({ all: true }))
        .filter(({ Labels }) => Labels['io.rollpool.pool']?.startsWith(testPool))
        .map(({ Id }) => Id),
  });
});
