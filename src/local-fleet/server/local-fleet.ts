import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FleetTask } from '../../contracts/index.ts';
import { silentLogger, type Logger } from '../../observe/index.ts';
import type { LocalEnvironment } from '../environment/environment.ts';
import { runVerifier } from '../verifier/run-verifier.ts';
import { FaultSwitch } from './faults/fault-switch.ts';
import { answerError, openExchange, sendJson } from './http/exchange.ts';
import { FleetParts } from './fleet-parts.ts';
import type { InstanceStatus } from './instances/instance.ts';

export interface LocalFleetOptions {
  /** Of several with the same key the last is the default version; of the same version too, the last is it. */
  readonly environments: readonly LocalEnvironment[];
  /** What the orchestrator tells of as tasks. Default: none. */
  readonly tasks?: readonly FleetTask[];
  /** Bearer that is asked for; null: any will do, but there has to be one. Default: null. */
  readonly apiKey?: string | null;
  /** Default: `127.0.0.1`. */
  readonly host?: string;
  /** Default: a free port. */
  readonly port?: number;
  /** Where it makes its directory. Default: the system's directory of temporary files. */
  readonly directory?: string;
  /** Live instances at once. Default: 1000. */
  readonly instanceLimit?: number;
  /** Verifiers executed at once, a Python process each. Default: one for each core. */
  readonly verifierConcurrency?: number;
  /** Seconds without a request after which an MCP session is closed. Default: 900. */
  readonly sessionIdleSeconds?: number;
  readonly log?: Logger;
}

/** A live instance, for those who look from inside. */
export interface LiveInstance {
  readonly instance_id: string;
  readonly env_key: string;
  readonly version: string;
  readonly data_key: string;
  readonly run_id: string | null;
  readonly status: InstanceStatus;
  readonly created_at: Date;
  /** Tool calls that reached it. */
  readonly calls: number;
}

/** A running local Fleet. Disposing it ends its instances, sessions, verifiers and connections, and removes its files. */
export interface LocalFleet extends AsyncDisposable {
  /** `http://host:port`: the base URL of the orchestrator. */
  readonly url: string;
  /** What it is to do wrong. Also `POST /__faults` with one fault or a list, and `DELETE /__faults`. */
  readonly faults: FaultSwitch;
  /** The live ones, oldest first. */
  instances(): readonly LiveInstance[];
  /** Open MCP sessions. */
  sessions(): number;
}

/** The server cannot start: one line naming what stands in the way. */
export class LocalFleetStartError extends Error {
  constructor(message: string, options: { cause: unknown }) {
    super(message, options);
    this.name = 'LocalFleetStartError';
  }
}

async function respond(
  parts: FleetParts,
  url: string,
  log: Logger,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const started = performance.now();
  const exchange = openExchange(request, response, url);
  try {
    const body = await parts.serve(exchange);
    if (body !== undefined) sendJson(response, 200, body);
  } catch (error) {
    if (!answerError(error, response) && !request.destroyed) {
      log.error({ err: error, path: exchange.path }, 'local fleet: a request failed');
    }
  }
  if (log.isLevelEnabled('debug')) {
    const ms = Math.round(performance.now() - started);
    const { method, path } = exchange;
    log.debug({ method, path, status: response.statusCode, ms }, 'local fleet: answered');
  }
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new LocalFleetStartError(`cannot listen on ${host}:${port} (${code})`, { cause });
  }
  return (server.address() as AddressInfo).port;
}

/** Starts a server that speaks the Fleet wire over local environments. See docs/local-fleet.md. Throws `LocalFleetStartError`. */
export async function startLocalFleet(options: LocalFleetOptions): Promise<LocalFleet> {
  const host = options.host ?? '127.0.0.1';
  const log = options.log ?? silentLogger;
  const faults = new FaultSwitch();
  let url = '';
  let parts: FleetParts | null = null;
  const server = createServer((request, response) => {
    if (parts === null) response.destroy();
    else void respond(parts, url, log, request, response);
  });
  // Clients hold their connections; nothing here is exposed to strangers who would let them idle.
  server.keepAliveTimeout = 75_000;
  server.requestTimeout = 0;
  const port = await listen(server, host, options.port ?? 0);
  url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const directory = await mkdtemp(join(options.directory ?? tmpdir(), `rollpool-fleet-${process.pid}-`));
  const running = new FleetParts({
    directory,
    environments: options.environments,
    tasks: options.tasks ?? [],
    apiKey: options.apiKey ?? null,
    instanceLimit: options.instanceLimit ?? 1_000,
    runVerifier,
    verifierConcurrency: options.verifierConcurrency ?? availableParallelism(),
    sessionIdleMs: (options.sessionIdleSeconds ?? 900) * 1_000,
    faults,
    log,
  });
  parts = running;
  const dispose = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    await running.close();
    server.closeAllConnections();
    await closed;
    await rm(directory, { recursive: true, force: true });
  };
  let disposed: Promise<void> | null = null;
  return {
    url,
    faults,
    instances: () =>
      running.instances.live().map(({ id, plan, status, created, calls }) => ({
        instance_id: id,
        env_key: plan.environment.env_key,
        version: plan.environment.version,
        data_key: plan.data_key,
        run_id: plan.run_id,
        status,
        created_at: created,
        calls,
      })),
    sessions: () => running.mcp.sessions,
    [Symbol.asyncDispose]: () => (disposed ??= dispose()),
  };
}
