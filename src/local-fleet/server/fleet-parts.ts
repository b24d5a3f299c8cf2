import { z } from 'zod';
import type { FleetTask } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import type { LocalEnvironment } from '../environment/environment.ts';
import { faultSchema } from './faults/fault.ts';
import type { FaultSwitch } from './faults/fault-switch.ts';
import { Doorkeeper } from './http/doorkeeper.ts';
import { readBody, type Exchange } from './http/exchange.ts';
import { BadGateway, notFound } from './http/refusal.ts';
import { Router } from './http/router.ts';
import { Catalogue } from './instances/catalogue.ts';
import { Instances } from './instances/instances.ts';
import { manager } from './manager/manager-routes.ts';
import { McpEndpoints } from './mcp/mcp-endpoints.ts';
import { catalogueRoutes } from './orchestrator/catalogue-routes.ts';
import { InstanceCreation } from './orchestrator/instance-creation.ts';
import { instanceRoutes } from './orchestrator/instance-routes.ts';
import { taskRoutes } from './orchestrator/task-routes.ts';
import { Bundles } from './verifiers/bundles.ts';
import { Executions, type RunVerifier } from './verifiers/executions.ts';
import { verifierRoutes } from './verifiers/verifier-routes.ts';

export interface FleetPartsOptions {
  readonly directory: string;
  readonly environments: readonly LocalEnvironment[];
  readonly tasks: readonly FleetTask[];
  readonly apiKey: string | null;
  readonly instanceLimit: number;
  readonly runVerifier: RunVerifier;
  readonly verifierConcurrency: number;
  readonly sessionIdleMs: number;
  readonly faults: FaultSwitch;
  readonly log: Logger;
}

/** `/i/{instance}` and what follows. */
const instancePath = /^\/i\/([^/]+)(\/.*)?$/;
const managerPath = '/api/v1/env';

/** What a local Fleet consists of, and which of it serves a path. */
export class FleetParts {
  readonly instances: Instances;
  readonly mcp: McpEndpoints;
  readonly #door: Doorkeeper;
  readonly #faults: FaultSwitch;
  readonly #executions: Executions;
  readonly #orchestrator: Router;
  readonly #closing = new AbortController();

  constructor(options: FleetPartsOptions) {
    const { faults, log } = options;
    this.#faults = faults;
    this.#door = new Doorkeeper(options.apiKey, faults);
    this.instances = new Instances({
      directory: options.directory,
      limit: options.instanceLimit,
      log,
      ended: (instance) => this.mcp.closeOf(instance),
    });
    this.mcp = new McpEndpoints(this.instances, this.#door, faults, options.sessionIdleMs);
    this.#executions = new Executions(options.runVerifier, options.verifierConcurrency);
    const catalogue = new Catalogue(options.environments);
    const creation = new InstanceCreation(catalogue, this.instances, faults, this.#closing.signal);
    this.#orchestrator = new Router({
      ...instanceRoutes(this.instances, creation, faults),
      ...catalogueRoutes(catalogue, this.instances),
      ...verifierRoutes(this.instances, new Bundles(), this.#executions, faults),
      ...taskRoutes(options.tasks),
    });
  }

  /** Gives the body of a 200, or undefined when the answer is out already. Throws what is answered otherwise. */
  async serve(exchange: Exchange): Promise<unknown> {
    const { path, method } = exchange;
    const [, id, rest] = instancePath.exec(path) ?? [];
    if (id !== undefined) return this.#serveInstance(exchange, id, rest ?? '/');
    if (path === '/health' && method === 'GET') return { status: 'healthy' };
    this.#door.check(exchange);
    if (path === '/__faults') return this.#serveFaults(exchange);
    return this.#orchestrator.route(exchange, path, undefined);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.instances.close();
    await this.#executions.close();
    await this.mcp.close();
  }

  /** What the proxy of the service does: only a running instance answers at its own URL. */
  async #serveInstance(exchange: Exchange, id: string, path: string): Promise<unknown> {
    const instance = this.instances.find(id);
    if (instance === undefined) throw notFound();
    const occasion = { instance: id, run_id: instance.plan.run_id };
    const endpoint = path === '/mcp' ? 'mcp' : path === '/api/v1/mcp' ? 'aggregator' : null;
    const plane = endpoint === null ? 'manager' : 'mcp';
    const faulty = this.#faults.take('bad_gateway', occasion, ({ on }) => on === 'any' || on === plane);
    if (instance.status !== 'running' || faulty !== undefined) throw new BadGateway();
    if (endpoint !== null) {
      await this.mcp.handle(exchange, instance, endpoint);
      return undefined;
    }
    if (!path.startsWith(`${managerPath}/`)) throw notFound();
    return manager.route(exchange, path.slice(managerPath.length), instance);
  }

  async #serveFaults(exchange: Exchange): Promise<unknown> {
    if (exchange.method === 'DELETE') this.#faults.clear();
    else if (exchange.method === 'POST') {
      const body = await readBody(exchange, z.union([z.array(faultSchema), faultSchema]));
      for (const fault of [body].flat()) this.#faults.add(fault);
    } else throw notFound();
    return {};
  }
}
