import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Exchange } from '../http/exchange.ts';
import type { Instance } from '../instances/instance.ts';
import type { EndpointName } from './tool-server.ts';

/** One client's MCP session at one endpoint of an instance. */
export class McpSession {
  readonly id = randomUUID();
  readonly instance: Instance;
  readonly endpoint: EndpointName;
  readonly #server: Server;
  readonly #transport: StreamableHTTPServerTransport;
  readonly #open = new Set<ServerResponse>();
  #used = Date.now();

  constructor(instance: Instance, endpoint: EndpointName, server: Server, closed: () => void) {
    this.instance = instance;
    this.endpoint = endpoint;
    this.#server = server;
    this.#transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => this.id });
    server.onclose = closed;
  }

  async start(): Promise<void> {
    await this.#server.connect(this.#transport);
  }

  /** Milliseconds since the last request; 0 while one is being answered. */
  get idleMs(): number {
    return this.#open.size > 0 ? 0 : Date.now() - this.#used;
  }

  /** Serves one request whose body is `message`. Resolves when its answer is out or its client has left. */
  async serve({ request, response }: Exchange, message?: unknown): Promise<void> {
    this.#open.add(response);
    try {
      await this.#transport.handleRequest(request, response, message);
    } finally {
      this.#open.delete(response);
      this.#used = Date.now();
    }
  }

  /** Ends it; what it has not answered is cut off. */
  async close(): Promise<void> {
    for (const response of this.#open) response.destroy();
    await this.#server.close();
  }
}
