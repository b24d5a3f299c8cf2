import { Sandbox, type SandboxOpts } from 'e2b';
import type { E2bDouble } from './open-e2b-double.ts';

/** What leads the SDK to the double. */
export function clientOf(double: E2bDouble): { apiKey: string; apiUrl: string; sandboxUrl: string } {
  return { apiKey: double.apiKey, apiUrl: double.apiUrl, sandboxUrl: double.sandboxUrl };
}

export function createSandbox(double: E2bDouble, options: SandboxOpts = {}): Promise<Sandbox> {
  return Sandbox.create('base', {
    ...clientOf(double),
    timeoutMs: 120_000,
    allowInternetAccess: false,
    ...options,
  });
}

/** What work rejects with; fails when it succeeds. */
export async function errorOf(work: Promise<unknown>): Promise<Error> {
  const error: unknown = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Error)) throw new Error('it succeeded');
  return error;
}
