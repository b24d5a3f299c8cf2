import type { FaultSwitch } from '../faults/fault-switch.ts';
import { readJson, sendJson, type Exchange } from '../http/exchange.ts';
import type { Doorkeeper } from '../http/doorkeeper.ts';
import { BadGateway, ConnectionCut, notFound } from '../http/refusal.ts';
import type { Instance } from '../instances/instance.ts';
import type { Instances } from '../instances/instances.ts';
import { McpSession } from './mcp-session.ts';
import { callTool, createToolServer, type EndpointName } from './tool-server.ts';

/** Open sessions of one instance; the one that was idle longest makes room. */
const sessionsOfOne = 64;

interface ToolCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The call of a tool in a message, or null. */
function toolCallOf(message: unknown): ToolCall | null {
  if (typeof message !== 'object' || message === null) return null;
  const { method, params } = message as {
    method?: unknown;
    params?: { name?: unknown; arguments?: unknown };
  };
  if (method !== 'tools/call' || typeof params?.name !== 'string') return null;
  const args = typeof params.arguments === 'object' && params.arguments !== null ? params.arguments : {};
  return { name: params.name, args: args as Record<string, unknown> };
}

const isInitialize = (message: unknown): boolean =>
  typeof message === 'object' && message !== null && 'method' in message && message.method === 'initialize';

function rpcError(exchange: Exchange, status: number, code: number, message: string): void {
  sendJson(exchange.response, status, { jsonrpc: '2.0', error: { code, message }, id: null });
}

/** The two MCP endpoints of every instance, over Streamable HTTP with sessions. */
export class McpEndpoints {
  readonly #instances: Instances;
  readonly #door: Doorkeeper;
  readonly #faults: FaultSwitch;
  readonly #sessions = new Map<string, McpSession>();
  readonly #sweep: NodeJS.Timeout;

  /** A session without a request for `idleMs` milliseconds is closed. */
  constructor(instances: Instances, door: Doorkeeper, faults: FaultSwitch, idleMs: number) {
    this.#instances = instances;
    this.#door = door;
    this.#faults = faults;
    this.#sweep = setInterval(
      () => {
        for (const session of this.#sessions.values()) if (session.idleMs > idleMs) void session.close();
      },
      Math.max(idleMs / 4, 20),
    );
    this.#sweep.unref();
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  async handle(exchange: Exchange, instance: Instance, endpoint: EndpointName): Promise<void> {
    const occasion = { instance: instance.id, run_id: instance.plan.run_id };
    this.#door.check(exchange, occasion);
    const missing = this.#faults.take('endpoint_missing', occasion, (fault) => fault.endpoint === endpoint);
    if (missing !== undefined) throw notFound();
    if (exchange.method !== 'POST' && exchange.method !== 'DELETE') {
      // No stream from server to client: it never has anything to say unasked, and each would hold a connection.
      exchange.response.setHeader('allow', 'POST, DELETE');
      return rpcError(exchange, 405, -32_000, 'Method not allowed.');
    }
    const message = exchange.method === 'POST' ? await readJson(exchange) : undefined;
    // It may have ended meanwhile, and a session opened now would outlive it.
    if (instance.status !== 'running') throw new BadGateway();
    const session = await this.#sessionFor(exchange, message, instance, endpoint);
    if (session === null) return;
    const call = toolCallOf(message);
    if (call !== null) await this.#disturb(exchange, session, call);
    if (!exchange.response.writableEnded) await session.serve(exchange, message);
  }

  /** Closes what an instance had open. */
  async closeOf(instance: Instance): Promise<void> {
    const own = [...this.#sessions.values()].filter((session) => session.instance === instance);
    await Promise.all(own.map((session) => session.close()));
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all([...this.#sessions.values()].map((session) => session.close()));
  }

  /** The session a request belongs to; null when the request was refused. */
  async #sessionFor(
    exchange: Exchange,
    message: unknown,
    instance: Instance,
    endpoint: EndpointName,
  ): Promise<McpSession | null> {
    const id = exchange.request.headers['mcp-session-id'];
    if (typeof id === 'string') {
      const session = this.#sessions.get(id);
      if (session?.instance === instance && session.endpoint === endpoint) return session;
      rpcError(exchange, 404, -32_001, 'Session not found');
      return null;
    }
    if (!isInitialize(message)) {
      rpcError(exchange, 400, -32_000, 'Bad Request: Mcp-Session-Id header is required');
      return null;
    }
    return this.#open(instance, endpoint);
  }

  async #open(instance: Instance, endpoint: EndpointName): Promise<McpSession> {
    const own = [...this.#sessions.values()].filter((session) => session.instance === instance);
    if (own.length >= sessionsOfOne) {
      await own.reduce((idlest, other) => (other.idleMs > idlest.idleMs ? other : idlest)).close();
    }
    const server = createToolServer(instance, endpoint, this.#faults);
    const session = new McpSession(instance, endpoint, server, () => this.#sessions.delete(session.id));
    this.#sessions.set(session.id, session);
    await session.start();
    return session;
  }

  /** The faults of a call that strike before the tool sees it. */
  async #disturb(exchange: Exchange, session: McpSession, { name, args }: ToolCall): Promise<void> {
    const { instance, endpoint } = session;
    const occasion = { instance: instance.id, run_id: instance.plan.run_id, tool: name };
    const gone = this.#faults.take('instance_gone', occasion, (fault) => instance.calls >= fault.after_calls);
    if (gone !== undefined) {
      await this.#instances.end(instance, 'error', 'a fault ended it');
      throw new BadGateway();
    }
    instance.calls += 1;
    if (this.#faults.take('session_lost', occasion) !== undefined) {
      await session.close();
      return rpcError(exchange, 404, -32_001, 'Session not found');
    }
    const cut = this.#faults.take('call_cut', occasion);
    if (cut === undefined) return;
    if (cut.ran) callTool(instance, endpoint, name, args);
    throw new ConnectionCut();
  }
}
