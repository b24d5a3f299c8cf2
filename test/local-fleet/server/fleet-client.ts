import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { startLocalFleet, type LocalFleet, type LocalFleetOptions } from '../../../src/local-fleet/index.ts';
import { notesEnvironment } from './notes-environment.ts';

export const key = 'sk_test';

export const startNotesFleet = (options: Partial<LocalFleetOptions> = {}): Promise<LocalFleet> =>
  startLocalFleet({ environments: [notesEnvironment], apiKey: key, ...options });

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; undefined when it is none. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly json: any;
}

/** One request with the key, unless `headers` says otherwise. */
export async function ask(
  url: string,
  method: string,
  body?: unknown,
  headers: Record<string, string> = { authorization: `Bearer ${key}` },
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: response.status, headers: response.headers, text, json };
}

/** Creates an instance of the notes. */
export const create = (fleet: LocalFleet, extra: Record<string, unknown> = {}): Promise<Answer> =>
  ask(`${fleet.url}/v1/env/instances`, 'POST', { env_key: 'notes', ...extra });

export interface McpConnection extends AsyncDisposable {
  readonly client: Client;
  readonly sessionId: string | undefined;
}

/** An MCP session at `url`, closed as a polite client does it. */
export async function connect(url: string, bearer = key): Promise<McpConnection> {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${bearer}` } },
  });
  await client.connect(transport);
  return {
    client,
    sessionId: transport.sessionId,
    async [Symbol.asyncDispose]() {
      await transport.terminateSession().catch(() => undefined);
      await client.close();
    },
  };
}
