import type { z } from 'zod';
import { withRetries, type RetryPolicy } from './retry.ts';
import type { TransportRequest } from './transport.ts';
import * as wire from './wire.ts';

/** What must not count as a difference between the two databases. */
export interface DiffIgnore {
  readonly tables?: readonly string[];
  readonly fields?: readonly string[];
  readonly table_fields?: Readonly<Record<string, readonly string[]>>;
}

export interface ManagerOptions {
  readonly send: (request: TransportRequest) => Promise<unknown>;
  readonly headers: () => Promise<Readonly<Record<string, string>>>;
  readonly retry: Pick<RetryPolicy, 'attempts' | 'base_ms' | 'longest_ms'>;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the call with all its tries. Default: 30 s. */
  readonly timeout_ms?: number;
}

/**
 * The server inside an instance that knows its databases. A request that the database refuses is an answer with
 * `success: false`, not an error. Reads are repeated when they fail in a transient way, as right after the start; what
 * changes something is not.
 */
export class InstanceManager {
  readonly url: string;
  readonly #options: ManagerOptions;

  constructor(url: string, options: ManagerOptions) {
    this.url = url.replace(/\/+$/, '');
    this.#options = options;
  }

  /** Current becomes the seed again. Default time: 10 s, since some images hang in it. */
  async reset(
    state: { readonly seed?: number; readonly timestamp?: number } = {},
    options: CallOptions = {},
  ): Promise<{ success: boolean; message?: string | null | undefined }> {
    return this.#call(wire.resetSchema, 'POST', '/reset', { timeout_ms: 10_000, ...options }, state, true);
  }

  async resources(options: CallOptions = {}): Promise<wire.Resource[]> {
    return this.#call(wire.resourcesSchema, 'GET', '/resources', options);
  }

  async describe(database: string, options: CallOptions = {}): Promise<wire.DescribeAnswer> {
    return this.#call(wire.describeSchema, 'GET', `${sqlitePath(database)}/describe`, options);
  }

  /** `readOnly` false: it may write, so it is never repeated. */
  async query(
    database: string,
    sql: string,
    args: readonly unknown[] | null = null,
    options: CallOptions & { readonly readOnly?: boolean } = {},
  ): Promise<wire.QueryAnswer> {
    const readOnly = options.readOnly ?? true;
    const body = { query: sql, args, read_only: readOnly };
    return this.#call(wire.querySchema, 'POST', `${sqlitePath(database)}/query`, options, body, !readOnly);
  }

  async diff(ignore: DiffIgnore | null = null, options: CallOptions = {}): Promise<wire.DiffAnswer> {
    const body =
      ignore === null ? {} : { ignore_config: { tables: [], fields: [], table_fields: {}, ...ignore } };
    return this.#call(wire.diffSchema, 'POST', '/diff/structured', options, body);
  }

  async health(options: CallOptions = {}): Promise<wire.Health> {
    return this.#call(wire.healthSchema, 'GET', '/health', options);
  }

  async #call<S extends z.ZodType>(
    schema: S,
    method: 'GET' | 'POST',
    path: string,
    options: CallOptions,
    body?: unknown,
    once = false,
  ): Promise<z.infer<S>> {
    const headers = await this.#options.headers();
    const answer = await withRetries(
      async (timeout_ms) =>
        this.#options.send({
          method,
          url: `${this.url}${path}`,
          headers,
          timeout_ms,
          ...(body === undefined ? {} : { body }),
          ...(options.signal === undefined ? {} : { signal: options.signal }),
        }),
      { ...this.#options.retry, total_ms: options.timeout_ms ?? 30_000, ...(once ? { attempts: 1 } : {}) },
      options.signal,
    );
    return wire.readAnswer(schema, answer, `${method} ${path}`);
  }
}

function sqlitePath(database: string): string {
  return `/resources/sqlite/${encodeURIComponent(database)}`;
}
