import { chmod } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { silentLogger, type Logger } from '../../observe/index.ts';
import { ownAddresses, readNetwork } from './addresses.ts';
import { AllowList } from './allow-list.ts';
import { dial, type DialOptions } from './dial.ts';
import { answer, EgressServer } from './egress-server.ts';
import { EgressCounts, type EgressStats } from './egress-stats.ts';
import { EgressError } from './refusal.ts';
import { targetOf } from './request-check.ts';
import { oneAtATime, systemResolve, type Resolve } from './resolve.ts';
import { showTarget } from './target.ts';

export interface EgressProxyOptions {
  /** Path of the Unix socket to listen at; whoever reaches it may use the proxy. */
  readonly socketPath: string;
  /** Entries of `sandbox.network.allow`. */
  readonly allow: readonly string[];
  /** CIDR networks that are private and may be reached all the same. Default: none. */
  readonly allowPrivate?: readonly string[];
  readonly log?: Logger;
  /** Default: the system's. */
  readonly resolve?: Resolve;
  /** Connections at once; one more is answered with 503. Default: 128. */
  readonly maxConnections?: number;
  /** Milliseconds in which the headers of a request have to arrive. Default: 30,000. */
  readonly headerMs?: number;
  /** Milliseconds to find a host's address and to connect. Default: 15,000. */
  readonly connectMs?: number;
  /** Milliseconds without a byte after which a connection is cut. Default: 300,000. */
  readonly idleMs?: number;
  /** Milliseconds after which a connection is cut. Default: 3,600,000. */
  readonly totalMs?: number;
}

export interface EgressProxy extends AsyncDisposable {
  stats(): EgressStats;
}

/** One connection of a sandbox. */
interface Client {
  /** Aborted when it has closed. */
  readonly gone: AbortController;
  readonly headerTimer: NodeJS.Timeout;
}

/** Sockets of clients outlive those of hosts by this, so that a silent host can be told from a silent client. */
const clientGraceMs = 5_000;

class OpenProxy implements EgressProxy {
  readonly #clients = new Map<Socket, Client>();
  readonly #counts = new EgressCounts();
  readonly #list: AllowList;
  readonly #dialling: DialOptions;
  readonly #log: Logger;
  readonly #http = new EgressServer((request) => this.#open(request));
  readonly #server: Server;
  readonly #limits: { connections: number; headerMs: number; idleMs: number; totalMs: number };

  constructor(options: EgressProxyOptions) {
    this.#list = new AllowList(options.allow);
    this.#log = options.log ?? silentLogger;
    this.#dialling = {
      resolve: oneAtATime(options.resolve ?? systemResolve),
      allowPrivate: (options.allowPrivate ?? []).map(readNetwork),
      ownAddresses,
      connectMs: options.connectMs ?? 15_000,
    };
    this.#limits = {
      connections: options.maxConnections ?? 128,
      headerMs: options.headerMs ?? 30_000,
      idleMs: options.idleMs ?? 300_000,
      totalMs: options.totalMs ?? 3_600_000,
    };
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(path, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    await chmod(path, 0o666);
  }

  stats(): EgressStats {
    return this.#counts.snapshot(this.#clients.size);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const client of this.#clients.keys()) client.destroy();
    await closed;
  }

  #accept(client: Socket): void {
    client.on('error', () => undefined);
    if (this.#clients.size >= this.#limits.connections) {
      const why = `this sandbox has ${this.#limits.connections} connections open already`;
      client.end(answer(503, why), () => client.destroy());
      return;
    }
    const gone = new AbortController();
    const headerTimer = setTimeout(() => {
      this.#http.sendSocketResponse(client, 408, {}, 'the request did not arrive in time');
    }, this.#limits.headerMs);
    const totalTimer = setTimeout(() => client.destroy(), this.#limits.totalMs);
    this.#clients.set(client, { gone, headerTimer });
    client.once('close', () => {
      clearTimeout(headerTimer);
      clearTimeout(totalTimer);
      this.#clients.delete(client);
      gone.abort(new Error('the sender is gone'));
    });
    client.setTimeout(this.#limits.idleMs + clientGraceMs);
    this.#http.take(client);
  }

  async #open(request: IncomingMessage): Promise<Socket> {
    const client = this.#clients.get(request.socket);
    clearTimeout(client?.headerTimer);
    let host = '(unreadable)';
    try {
      const target = targetOf(request);
      host = showTarget(target);
      const verdict = this.#list.look(target);
      if (verdict !== 'listed') {
        const what = verdict === 'port' ? 'with this port is not' : 'is not';
        throw new EgressError(
          'forbidden',
          `${host} ${what} on the list of hosts that this sandbox may reach`,
        );
      }
      const upstream = await dial(target, this.#dialling, client?.gone.signal ?? AbortSignal.abort());
      this.#counts.allowed += 1;
      this.#counts.follow(upstream);
      upstream.setTimeout(this.#limits.idleMs).on('timeout', () => upstream.destroy());
      return upstream;
    } catch (error) {
      this.#count(host, error);
      throw error;
    }
  }

  #count(host: string, error: unknown): void {
    if (!(error instanceof EgressError)) return;
    if (error.kind === 'failed') {
      this.#counts.allowed += 1;
      this.#counts.failed += 1;
      this.#log.debug({ host, why: error.message }, 'a host of the allow list was not reached');
    } else if (this.#counts.refuse(host)) {
      this.#log.debug({ host, why: error.message }, 'refused to a sandbox with an allow list');
    }
  }
}

/**
 * Opens the HTTP proxy that is a sandbox's only way out: CONNECT and plain requests to the hosts of an allow list, and to
 * nothing else. Disposing it cuts what goes through it and removes the socket.
 *
 * @throws AllowEntryError for an entry that is none; the error of `listen` when there can be no socket.
 */
export async function openEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const proxy = new OpenProxy(options);
  try {
    await proxy.listen(options.socketPath);
  } catch (error) {
    await proxy[Symbol.asyncDispose]();
    throw error;
  }
  return proxy;
}
