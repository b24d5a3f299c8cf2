import { afterAll, beforeAll, describe } from 'vitest';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import { openE2bDouble, type E2bDouble } from '../e2b-double/open-e2b-double.ts';
import { sandboxContract } from './contract.ts';
import { haveDocker } from './docker-daemon.ts';
import { testPool } from './fixture.ts';

describe.runIf(haveDocker)('e2b', () => {
  let double: E2bDouble;
  beforeAll(async () => {
    double = await openE2bDouble();
  });
  afterAll(async () => {
    await double[Symbol.asyncDispose]();
  });

  sandboxContract('e2b', {
    create: () =>
      createSandboxProvider('e2b', {
        e2b: {
          connection: {
            apiKey: double.apiKey,
            apiUrl: double.apiUrl,
            sandboxUrl: double.sandboxUrl,
            domain: null,
          },
          template: 'base',
        },
      }),
    surelyFound: true,
    vanish: async (sandbox) => double.evict(sandbox.id),
    leftovers: async () =>
      double
        .sandboxes()
        .filter(({ metadata }) => metadata['io.rollpool.pool']?.startsWith(testPool))
        .map(({ id }) => id),
  });
});
