import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { createBaseUrl, normalizeBaseUrl } from './addresses.ts';
import { FleetApiError } from './api-error.ts';
import type { CreateBody } from './create-body.ts';
import { InstanceManager } from './instance-manager.ts';
import { withRetries, type RetryPolicy } from './retry.ts';
import { Transport, type TransportRequest } from './transport.ts';
import * as wire from './wire.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the call with all its tries. Default: 60 s. */
  readonly timeout_ms?: number;
}

export interface FleetClientOptions {
  /** null: the vendor's. */
  readonly baseUrl: string | null;
  readonly apiKey: string;
  /** Pauses between tries. Default: from 0.5 s doubling to 8 s, 4 tries. */
  readonly retry?: Partial<Pick<RetryPolicy, 'attempts' | 'base_ms' | 'longest_ms'>>;
}

export interface InstanceFilter {
  readonly status?: 'pending' | 'running' | 'stopped' | 'error';
  readonly region?: string;
  readonly run_id?: string;
}

const defaultTimeoutMs = 60_000;
/** Of one try: a read that takes longer is better asked anew. */
const tryMs = 30_000;

/** What the service is told of who calls. The version is that of the wire this client was written to. */
const sdkHeaders = { 'x-fleet-sdk-language': 'TypeScript', 'x-fleet-sdk-version': '0.2.133' };

function query(values: Readonly<Record<string, string | undefined>>): string {
  const parameters = new URLSearchParams(
    Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined),
  ).toString();
  return parameters === '' ? '' : `?${parameters}`;
}

/**
 * The Fleet orchestrator. Every failure is a FleetApiError, except an abort. Reads, deletions and heartbeats that fail
 * in a transient way are repeated; creations and verifier executions never are, since each may have had its effect.
 * Source of paths and fields: the vendor's SDK, 0.2.133.
 */
export class FleetClient implements AsyncDisposable {
  readonly baseUrl: string;
  readonly #apiKey: string;
  readonly #transport: Transport;
  readonly #retry: Pick<RetryPolicy, 'attempts' | 'base_ms' | 'longest_ms'>;
  #runnerToken: Promise<string | null> | undefined;

  constructor(options: FleetClientOptions) {
    this.baseUrl = normalizeBaseUrl(options.baseUrl);
    this.#apiKey = options.apiKey;
    this.#transport = new Transport(options.apiKey);
    this.#retry = { attempts: 4, base_ms: 500, longest_ms: 8_000, ...options.retry };
  }

  /** For the servers of an instance, which take the same key. */
  get authorization(): Readonly<Record<string, string>> {
    return { authorization: `Bearer ${this.#apiKey}` };
  }

  async account(options: CallOptions = {}): Promise<wire.Account> {
    return this.#call(wire.accountSchema, 'GET', '/v1/account', options);
  }

  async environmentTypes(options: CallOptions = {}): Promise<wire.EnvironmentType[]> {
    return this.#call(wire.environmentTypeSchema.array(), 'GET', '/v1/env/', options);
  }

  async environmentType(envKey: string, options: CallOptions = {}): Promise<wire.EnvironmentType> {
    return this.#call(wire.environmentTypeSchema, 'GET', `/v1/env/${encodeURIComponent(envKey)}`, options);
  }

  async regions(options: CallOptions = {}): Promise<string[]> {
    return this.#call(wire.regionsSchema, 'GET', '/v1/regions', options);
  }

  /** One try: after a failure it is not known whether something was made (`batchDelete` finds out). */
  async createInstance(
    body: CreateBody,
    options: CallOptions & { readonly region: string | null },
  ): Promise<wire.Instance> {
    return this.#call(wire.instanceSchema, 'POST', '/v1/env/instances', options, {
      body,
      baseUrl: createBaseUrl(this.baseUrl, options.region),
      once: true,
    });
  }

  /** `retryNotFound`: right after its creation an instance may not be seen everywhere yet. */
  async instance(
    id: string,
    options: CallOptions & { readonly retryNotFound?: boolean } = {},
  ): Promise<wire.Instance> {
    return this.#call(wire.instanceSchema, 'GET', `/v1/env/instances/${encodeURIComponent(id)}`, options, {
      retryNotFound: options.retryNotFound === true,
    });
  }

  async instances(filter: InstanceFilter = {}, options: CallOptions = {}): Promise<wire.Instance[]> {
    return this.#call(
      wire.instanceSchema.array(),
      'GET',
      `/v1/env/instances${query({ ...filter })}`,
      options,
    );
  }

  /** True: it is deleted; false: it was gone already. */
  async deleteInstance(id: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#call(null, 'DELETE', `/v1/env/instances/${encodeURIComponent(id)}`, options);
      return true;
    } catch (error) {
      if (error instanceof FleetApiError && error.kind === 'not_found') return false;
      throw error;
    }
  }

  /** Deletes what has this run id, and nothing else. That there is nothing is no error. */
  async batchDelete(runId: string, options: CallOptions = {}): Promise<void> {
    // Without a run id the service would be asked for everything.
    if (runId === '') throw new TypeError('a batch delete needs a run id');
    try {
      await this.#call(null, 'DELETE', `/v1/env/instances/batch${query({ run_id: runId })}`, options);
    } catch (error) {
      if (!(error instanceof FleetApiError) || error.kind !== 'not_found') throw error;
    }
  }

  async heartbeat(id: string, region: string | null, options: CallOptions = {}): Promise<wire.Heartbeat> {
    const path = `/v1/env/instances/${encodeURIComponent(id)}/heartbeat`;
    return this.#call(wire.heartbeatSchema, 'POST', path, options, {
      body: region === null ? {} : { region },
    });
  }

  async runs(
    active: 'active' | 'inactive' | 'all' = 'active',
    options: CallOptions = {},
  ): Promise<wire.Run[]> {
    return this.#call(wire.runSchema.array(), 'GET', `/v1/env/runs${query({ active })}`, options);
  }

  async verifier(id: string, options: CallOptions = {}): Promise<wire.StoredVerifier> {
    return this.#call(wire.verifierSchema, 'GET', `/v1/verifiers/${encodeURIComponent(id)}`, options);
  }

  /** Whether the service has a bundle with this hash (hex SHA-256). */
  async hasBundle(sha256: string, options: CallOptions = {}): Promise<boolean> {
    const path = `/v1/verifiers/check${query({ sha256 })}`;
    return (await this.#call(wire.verifierCheckSchema, 'GET', path, options)).success;
  }

  /** One try. */
  async executeVerifier(
    body: Readonly<Record<string, unknown>>,
    options: CallOptions = {},
  ): Promise<wire.Execution> {
    return this.#call(wire.executionSchema, 'POST', '/v1/verifiers/execute', options, { body, once: true });
  }

  /** The manager of an instance, by its base URL (`managerUrl`). */
  manager(url: string): InstanceManager {
    return new InstanceManager(url, {
      send: async (request) => this.#transport.json(request),
      headers: async () => {
        const token = await (this.#runnerToken ??= this.#fetchRunnerToken());
        return {
          ...sdkHeaders,
          ...this.authorization,
          ...(token === null ? {} : { 'x-runner-token': token }),
        };
      },
      retry: this.#retry,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }

  /**
   * Some deployments let calls to an instance's manager through only with a token of their own, and answer 404 without
   * it. One that has no such token says 404 here; every failure means to go without. Source: the vendor's SDK.
   */
  async #fetchRunnerToken(): Promise<string | null> {
    try {
      const answer = await this.#transport.json(
        this.#request('GET', '/v1/runner-auth/token', { timeout_ms: 10_000 }, {}),
      );
      const token = (answer as { token?: unknown } | null)?.token;
      return typeof token === 'string' && token.trim() !== '' ? token.trim() : null;
    } catch {
      return null;
    }
  }

  #request(
    method: TransportRequest['method'],
    path: string,
    options: CallOptions,
    more: { readonly body?: unknown; readonly baseUrl?: string; readonly requestId?: string },
  ): TransportRequest {
    return {
      method,
      url: `${more.baseUrl ?? this.baseUrl}${path}`,
      headers: {
        ...sdkHeaders,
        ...this.authorization,
        'x-request-id': more.requestId ?? randomUUID(),
        'x-request-timestamp': String(Date.now()),
      },
      timeout_ms: options.timeout_ms ?? defaultTimeoutMs,
      ...(more.body === undefined ? {} : { body: more.body }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    };
  }

  async #call<S extends z.ZodType>(
    schema: S | null,
    method: TransportRequest['method'],
    path: string,
    options: CallOptions,
    more: {
      readonly body?: unknown;
      readonly baseUrl?: string;
      readonly once?: boolean;
      readonly retryNotFound?: boolean;
    } = {},
  ): Promise<z.infer<S>> {
    const total_ms = options.timeout_ms ?? defaultTimeoutMs;
    // One id for all tries of a call: the service knows by it that they are the same.
    const requestId = randomUUID();
    const answer = await withRetries(
      async (left_ms) =>
        this.#transport.json(
          this.#request(
            method,
            path,
            { ...options, timeout_ms: more.once === true ? left_ms : Math.min(left_ms, tryMs) },
            { ...more, requestId },
          ),
        ),
      {
        ...this.#retry,
        total_ms,
        ...(more.once === true ? { attempts: 1 } : {}),
        retryNotFound: more.retryNotFound === true,
      },
      options.signal,
    );
    if (schema === null) return null as z.infer<S>;
    return readAnswerOf(schema, answer, method, path);
  }
}

function readAnswerOf<S extends z.ZodType>(
  schema: S,
  answer: unknown,
  method: string,
  path: string,
): z.infer<S> {
  return wire.readAnswer(schema, answer, `${method} ${path.replace(/\?.*/s, '')}`);
}
