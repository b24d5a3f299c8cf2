import type { CreationGate } from '../../src/contracts/index.ts';
import { E2bProvider, type E2bProviderOptions } from '../../src/sandbox/e2b/e2b-provider.ts';
import { openE2bDouble, type E2bDouble } from '../e2b-double/open-e2b-double.ts';

/** A provider of the double's sandboxes. */
export function providerOf(double: E2bDouble, options: Partial<E2bProviderOptions> = {}): E2bProvider {
  return new E2bProvider({
    connection: {
      apiKey: double.apiKey,
      apiUrl: double.apiUrl,
      sandboxUrl: double.sandboxUrl,
      domain: null,
    },
    template: 'base',
    ...options,
  });
}

export { openE2bDouble, type E2bDouble };

/** A gate that lets everything through and notes what it was told. */
export function notingGate(): CreationGate & { readonly told: (string | number | null)[] } {
  const told: (string | number | null)[] = [];
  return {
    told,
    enter: async (signal) => {
      signal.throwIfAborted();
      return {
        passed: async () => void told.push('passed'),
        refused: async (retry_after_ms) => void told.push(retry_after_ms),
        left: async () => void told.push('left'),
      };
    },
  };
}
