import { Sandbox as E2bApi, type SandboxInfo } from 'e2b';
import { sdkOptions, type E2bConnection } from './connection.ts';

const callMs = 30_000;

/** Every sandbox, running or paused, that has all of this metadata: all pages. */
export async function listSandboxes(
  connection: E2bConnection,
  metadata: Readonly<Record<string, string>>,
): Promise<SandboxInfo[]> {
  const pages = E2bApi.list({
    ...sdkOptions(connection),
    requestTimeoutMs: callMs,
    limit: 100,
    query: { metadata: { ...metadata }, state: ['running', 'paused'] },
  });
  const found: SandboxInfo[] = [];
  while (pages.hasNext) found.push(...(await pages.nextItems()));
  // Not every service that speaks this wire filters as it was asked.
  return found.filter((sandbox) =>
    Object.entries(metadata).every(([name, value]) => sandbox.metadata[name] === value),
  );
}
