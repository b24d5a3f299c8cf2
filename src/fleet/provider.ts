import type { CreationGate, ReapFilter, ReapReport } from '../contracts/index.ts';
import { crashPoint, silentLogger, type Logger } from '../observe/index.ts';
import { FleetApiError, FleetClient } from './api/index.ts';
import { Creation } from './creation.ts';
import type { Environment, EnvironmentProvider, EnvironmentRequest } from './environment.ts';
import { accessFailure, infraFailure, reasonOf } from './fleet-failure.ts';
import { FleetEnvironment } from './fleet-environment.ts';
import { LostCreations } from './lost-creations.ts';
import { reapInstances } from './reap-instances.ts';
import type { FleetParts } from './remove-instance.ts';
import { fleetTimings, type FleetTimings } from './timings.ts';
import { KnownVerifiers } from './verifier/known-verifiers.ts';

export interface FleetProviderOptions {
  /** null: the vendor's. */
  readonly baseUrl: string | null;
  readonly apiKey: string;
  /** Lets creations through, for all workers of the pool together. */
  readonly gate: CreationGate;
  /** Default: says nothing. */
  readonly log?: Logger;
  /** For tests. */
  readonly timings?: Partial<FleetTimings>;
  /** Of calls that fail in a transient way, for tests. Default: from 0.5 s doubling to 8 s, 4 tries. */
  readonly retry?: { readonly attempts?: number; readonly base_ms?: number; readonly longest_ms?: number };
}

const probeMs = 10_000;

/** Environments as instances of a service that speaks the Fleet wire. It does nothing until it is asked for something. */
class FleetProvider implements EnvironmentProvider {
  readonly name = 'fleet';
  readonly shared = true;
  readonly #parts: FleetParts;
  readonly #gate: CreationGate;
  readonly #known = new KnownVerifiers();
  readonly #open = new Set<FleetEnvironment>();

  constructor(options: FleetProviderOptions) {
    const client = new FleetClient({
      baseUrl: options.baseUrl,
      apiKey: options.apiKey,
      ...(options.retry === undefined ? {} : { retry: options.retry }),
    });
    const log = options.log ?? silentLogger;
    const timings = { ...fleetTimings, ...options.timings };
    this.#gate = options.gate;
    this.#parts = {
      client,
      log,
      timings,
      lost: new LostCreations({ client, log, sweepMs: timings.sweep, againAfterMs: timings.sweepAgain }),
    };
  }

  async probe(signal?: AbortSignal): Promise<void> {
    const { client } = this.#parts;
    try {
      await client.account({ signal, timeout_ms: probeMs });
    } catch (error) {
      if (!(error instanceof FleetApiError)) throw error;
      if (error.isAccess) throw accessFailure(error, 'boot');
      throw infraFailure(
        'fleet_unreachable',
        `no Fleet service answers at ${client.baseUrl} (FLEET_BASE_URL): ${reasonOf(error)}`,
        { phase: 'boot', cause: error },
      );
    }
  }

  async create(request: EnvironmentRequest): Promise<Environment> {
    crashPoint('environment.create:before');
    const made = await new Creation(request, this.#gate, this.#parts).run();
    crashPoint('environment.create:after');
    const environment = new FleetEnvironment(this.#parts, {
      task: request.task,
      made,
      known: this.#known,
      onClosed: async () => {
        this.#open.delete(environment);
        await this.#gate.freed?.();
      },
    });
    this.#open.add(environment);
    return environment;
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    return reapInstances(this.#parts.client, filter, this.#parts.timings.remove);
  }

  /** Deletes the environments that are still open, and sweeps once more what lost creations may have made. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#open].map(async (environment) => environment[Symbol.asyncDispose]()));
    await this.#parts.lost[Symbol.asyncDispose]();
    await this.#parts.client[Symbol.asyncDispose]();
  }
}

export function createFleetProvider(options: FleetProviderOptions): EnvironmentProvider {
  return new FleetProvider(options);
}
