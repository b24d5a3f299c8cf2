import { createServer } from 'node:net';
import type { ToolCallOptions } from '../../../src/fleet/environment.ts';
import { openToolSet, type ToolSet, type ToolSetOptions } from '../../../src/fleet/mcp/tool-set.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { until } from '../../support/wait.ts';
import type { ToolServer } from './tool-server.ts';

/** Far more time than a test needs. */
export const soon: ToolCallOptions = { timeout_ms: 20_000, signal: new AbortController().signal };

/** The tools of servers or URLs, with short waits between tries. */
export function toolsOf(
  servers: readonly (ToolServer | string)[],
  more: Partial<Omit<ToolSetOptions, 'endpoints'>> = {},
): ToolSet {
  return openToolSet({
    endpoints: servers.map((server) => (typeof server === 'string' ? server : server.url)),
    headers: { authorization: 'Bearer sk_very_secret' },
    modality: 'tool_use',
    log: silentLogger,
    isGone: async () => false,
    ...more,
    timings: { backoff_ms: [10, 20], ...more.timings },
  });
}

/** A port where nobody listens. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

/** A client that has not heard yet that a connection ended still sends into it, and cannot tell what became of that. */
export async function connectionsClosed(): Promise<void> {
  await until(() => openSockets() === 0, 'all connections were closed');
}
