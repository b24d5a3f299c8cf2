import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  StreamableHTTPServerTransport,
  type EventStore,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';

export interface ToolServerOptions {
  readonly port?: number;
  readonly stateless?: boolean;
  readonly json?: boolean;
  readonly eventStore?: EventStore;
  /** Read at every list, so that a test can change it. */
  readonly tools?: () => readonly Tool[];
  readonly pageSize?: number;
  /** `closeStream` ends the event stream of the call, as a server does that lets its clients poll. */
  readonly call?: (
    name: string,
    args: Record<string, unknown>,
    closeStream: (() => void) | undefined,
  ) => unknown;
  /** What a request waits for before the server sees it. */
  readonly hold?: (message: Message) => Promise<void> | undefined;
  /** true = the fault answered (or will never answer) this request; the server does not see it. */
  readonly fault?: (request: IncomingMessage, response: ServerResponse, message: Message) => boolean;
}

export interface Message {
  readonly method?: string;
  readonly id?: number;
  readonly params?: { readonly name?: string };
}

export interface ToolServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Ids of the sessions that are open on the server. */
  readonly sessions: ReadonlySet<string>;
  /** `METHOD rpc-method` of every request, in order. */
  readonly seen: readonly string[];
  /** Names of the tools that were carried out. */
  readonly carriedOut: readonly string[];
  readonly headers: readonly IncomingMessage['headers'][];
  /** Forgets all sessions, as a restarted server does. */
  forget(): void;
  /** Cuts every connection. */
  cut(): void;
}

export function tool(name: string, more: Partial<Tool> = {}): Tool {
  return { name, description: `does ${name}`, inputSchema: { type: 'object' }, ...more };
}

async function bodyOf(request: IncomingMessage): Promise<Message | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return chunks.length === 0 ? undefined : (JSON.parse(Buffer.concat(chunks).toString()) as Message);
}

/** A server of the MCP SDK over HTTP on 127.0.0.1, with faults in front of it. */
export async function startToolServer(options: ToolServerOptions = {}): Promise<ToolServer> {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const sessions = new Set<string>();
  const seen: string[] = [];
  const carriedOut: string[] = [];
  const headers: IncomingMessage['headers'][] = [];

  function mcpServer(): Server {
    const server = new Server({ name: 'tools', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => {
      const all = options.tools?.() ?? [tool('echo')];
      if (options.pageSize === undefined) return { tools: [...all] };
      const from = Number(params?.cursor ?? 0);
      const next = from + options.pageSize;
      return { tools: all.slice(from, next), ...(next < all.length && { nextCursor: String(next) }) };
    });
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { closeSSEStream }) => {
      carriedOut.push(params.name);
      const answer = options.call?.(params.name, params.arguments ?? {}, closeSSEStream) ?? {
        content: [{ type: 'text', text: JSON.stringify(params.arguments ?? {}) }],
      };
      return Promise.resolve(answer);
    });
    return server;
  }

  async function transportFor(request: IncomingMessage): Promise<StreamableHTTPServerTransport | undefined> {
    const id = request.headers['mcp-session-id'];
    if (typeof id === 'string') return transports.get(id);
    const transport = new StreamableHTTPServerTransport({
      ...(!options.stateless && { sessionIdGenerator: () => randomUUID() }),
      enableJsonResponse: options.json ?? false,
      ...(options.eventStore && { eventStore: options.eventStore }),
      onsessioninitialized: (session) => {
        transports.set(session, transport);
        sessions.add(session);
      },
      onsessionclosed: (session) => {
        transports.delete(session);
        sessions.delete(session);
      },
    });
    await mcpServer().connect(transport);
    return transport;
  }

  const http = createServer((request, response) => {
    void (async () => {
      headers.push(request.headers);
      const body = await bodyOf(request);
      seen.push(`${request.method} ${body?.method ?? ''}`.trim());
      await options.hold?.(body ?? {});
      if (options.fault?.(request, response, body ?? {})) return;
      const transport = await transportFor(request);
      if (transport === undefined) {
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
        return;
      }
      await transport.handleRequest(request, response, body);
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => http.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    sessions,
    seen,
    carriedOut,
    headers,
    forget() {
      transports.clear();
      sessions.clear();
    },
    cut() {
      http.closeAllConnections();
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => http.close(resolve));
      http.closeAllConnections();
      await closed;
    },
  };
}
