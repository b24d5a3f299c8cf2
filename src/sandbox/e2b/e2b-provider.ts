import { Sandbox as E2bApi } from 'e2b';
import type { CreationGate, PlaceLimit, ReapFilter, ReapReport } from '../../contracts/index.ts';
import { crashPoint, silentLogger, type Logger } from '../../observe/index.ts';
import { claudeCliVersion } from '../claude-cli.ts';
import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';
import type {
  AssignRequest,
  KeptSnapshot,
  PreparedSandbox,
  PrepareRequest,
  Sandbox,
  SandboxProvider,
  SandboxRequest,
} from '../sandbox.ts';
import { openTunnel } from '../tunnel/index.ts';
import { bootInside } from './boot.ts';
import { channelTimings, type ChannelTimings } from './channel.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';
import { Creation, type CreationParts, type CreationRequest } from './creation.ts';
import { defaultTemplate } from './default-template.ts';
import { E2bSandbox, gatewaySocket } from './e2b-sandbox.ts';
import { keyRefused, statusOf } from './e2b-failure.ts';
import { PlanLifetime } from './lifetime.ts';
import { LostCreations } from './lost-creations.ts';
import { freePlaces, localGate } from './no-limits.ts';
import { reapSandboxes } from './reap-sandboxes.ts';
import { exists, removeSandbox } from './remove-sandbox.ts';
import { RetryAfterEar } from './retry-after.ts';
import { listSnapshots, removeSnapshot } from './snapshots.ts';

const probeMs = 15_000;
const removeMs = 45_000;

export interface E2bProviderOptions {
  readonly connection: E2bConnection;
  /** Template of tasks that name none. Default: `rollpool-claude-code`. */
  readonly template?: string | null;
  /** Lets creations through, for all workers of the pool together. Default: one of this process alone. */
  readonly gate?: CreationGate;
  /** Sandboxes at once and creations a second, for all workers of the pool together. Default: as many as there are. */
  readonly limit?: PlaceLimit;
  readonly log?: Logger;
  /** For tests. */
  readonly timings?: Partial<ChannelTimings>;
}

/** Sandboxes as virtual machines of an E2B service. It does nothing until it is asked for something. */
export class E2bProvider implements SandboxProvider {
  readonly name = 'e2b';
  readonly shared = true;
  readonly remote = true;
  readonly #connection: E2bConnection;
  readonly #template: string;
  readonly #parts: CreationParts;
  readonly #timings: ChannelTimings;
  readonly #log: Logger;
  /** CLI versions found, by template. */
  readonly #versions = new Map<string, Promise<void>>();

  constructor(options: E2bProviderOptions) {
    this.#connection = options.connection;
    this.#template = options.template ?? defaultTemplate;
    this.#log = options.log ?? silentLogger;
    this.#timings = { ...channelTimings, ...options.timings };
    this.#parts = {
      connection: options.connection,
      gate: options.gate ?? localGate(),
      limit: options.limit ?? freePlaces,
      plan: new PlanLifetime(this.#log),
      lost: new LostCreations(options.connection, this.#log),
      ear: new RetryAfterEar(sdkOptions(options.connection).apiUrl),
      log: this.#log,
      abortGraceMs: 15_000,
    };
  }

  async probe(signal?: AbortSignal): Promise<void> {
    const { apiUrl } = sdkOptions(this.#connection);
    const page = E2bApi.list({ ...sdkOptions(this.#connection), requestTimeoutMs: probeMs, limit: 1 });
    try {
      await page.nextItems(signal === undefined ? {} : { signal });
    } catch (error) {
      signal?.throwIfAborted();
      const status = statusOf(error);
      if (status === 401 || status === 403) throw keyRefused(error, 'boot');
      throw infraFailure(
        'e2b_unreachable',
        `no E2B service answers at ${apiUrl} (E2B_API_URL): ${reasonOf(error)}`,
        {
          phase: 'boot',
          cause: error,
        },
      );
    }
  }

  async create(request: SandboxRequest): Promise<Sandbox> {
    const sandbox = await this.#make(request, request.snapshot ?? null);
    if (request.gateway_dir === null) return sandbox;
    return this.#joined(sandbox, request.gateway_dir, request.signal);
  }

  async prepare(request: PrepareRequest): Promise<PreparedSandbox> {
    const sandbox = await this.#make(request, null);
    let disposed = false;
    return {
      id: sandbox.id,
      sandbox,
      check: async (timeout_ms) => sandbox.answers(timeout_ms),
      assign: async ({ gateway_dir, ttl_seconds, signal }: AssignRequest) => {
        try {
          signal.throwIfAborted();
          await sandbox.renew(ttl_seconds);
        } catch (error) {
          await this.#dropped(sandbox);
          throw error;
        }
        return this.#joined(sandbox, gateway_dir, signal);
      },
      [Symbol.asyncDispose]: async () => {
        if (disposed) return;
        disposed = true;
        await sandbox[Symbol.asyncDispose]();
      },
    };
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    return reapSandboxes(this.#connection, filter);
  }

  async listSnapshots(pool: string): Promise<readonly KeptSnapshot[]> {
    return listSnapshots(this.#connection, pool);
  }

  async removeSnapshot(name: string): Promise<void> {
    await removeSnapshot(this.#connection, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#parts.ear[Symbol.dispose]();
    await this.#parts.lost[Symbol.asyncDispose]();
  }

  #templateOf({ spec }: CreationRequest): string {
    if (spec.template !== undefined) return spec.template;
    const field = spec.build !== undefined ? 'build' : spec.image !== undefined ? 'image' : null;
    if (field === null) return this.#template;
    throw taskFailure(
      'template_missing',
      `sandbox.${field}: E2B sandboxes are made from templates and not from images: name one in sandbox.template`,
    );
  }

  /** A sandbox that was made and found to work; what does not work is removed. */
  async #make(request: CreationRequest, snapshot: string | null): Promise<E2bSandbox> {
    request.signal.throwIfAborted();
    const { workdir } = request.spec;
    if (/[\x00-\x1f\x7f]/.test(workdir) || workdir.split('/').includes('..') || /^\/+$/.test(workdir)) {
      throw taskFailure(
        'bad_workdir',
        `sandbox.workdir: ${JSON.stringify(workdir)} cannot be a working directory`,
      );
    }
    const template = snapshot ?? this.#templateOf(request);
    crashPoint('sandbox.create:before');
    const created = await new Creation(request, template, this.#parts).run();
    crashPoint('sandbox.create:after');
    const { api } = created;
    try {
      const booted = await bootInside({
        api,
        name: request.owner.nonce.replace(/[^a-zA-Z0-9_.-]/g, '_'),
        template,
        workdir,
        bootMs: created.bootLeftMs,
        signal: request.signal,
        isGone: async () =>
          exists(this.#connection, api.sandboxId).then(
            (there) => !there,
            () => false,
          ),
        log: this.#log,
        timings: this.#timings,
      });
      const sandbox = new E2bSandbox({
        ...created,
        ...booted,
        connection: this.#connection,
        gate: this.#parts.gate,
        log: this.#log,
        noCli: taskFailure(
          'cli_missing',
          `sandbox.template: ${template} has no Claude Code CLI: rollpool template build makes a template that has`,
          { phase: 'agent' },
        ),
      });
      void this.#checkVersion(template, sandbox);
      return sandbox;
    } catch (error) {
      await removeSandbox(this.#connection, api.sandboxId, removeMs).catch((cause: unknown) =>
        this.#log.warn({ sandbox: api.sandboxId, why: reasonOf(cause) }, 'left a sandbox to the reaper'),
      );
      await created.place.release();
      throw error;
    }
  }

  /** Its gateway socket leads to a directory's from now on; what fails removes it. */
  async #joined(sandbox: E2bSandbox, gatewayDir: string, signal: AbortSignal): Promise<E2bSandbox> {
    try {
      sandbox.carry(
        await openTunnel({
          host: sandbox,
          routes: [{ name: 'gateway', listen: { unix: gatewaySocket }, target: `${gatewayDir}/gw.sock` }],
          signal,
          log: this.#log,
        }),
      );
      return sandbox;
    } catch (error) {
      await this.#dropped(sandbox);
      signal.throwIfAborted();
      throw error;
    }
  }

  async #dropped(sandbox: E2bSandbox): Promise<void> {
    await sandbox[Symbol.asyncDispose]().catch((cause: unknown) =>
      this.#log.warn({ sandbox: sandbox.id, why: reasonOf(cause) }, 'left a sandbox to the reaper'),
    );
  }

  /** Says once for a template when its CLI is another one than this version was made for. */
  #checkVersion(template: string, sandbox: E2bSandbox): Promise<void> {
    const { cli_path: cli } = sandbox;
    if (cli === null) return Promise.resolve();
    let known = this.#versions.get(template);
    if (known === undefined) {
      known = sandbox
        .exec([cli, '--version'], {
          user: 'agent',
          cwd: '/',
          env: { DISABLE_AUTOUPDATER: '1' },
          timeout_ms: 60_000,
        })
        .then(({ stdout }) => {
          const version = /^\d+\.\d+\.\d+\S*/.exec(stdout.trim())?.[0] ?? null;
          if (version === claudeCliVersion) return;
          this.#log.warn(
            { template, version, wanted: claudeCliVersion },
            'the template has another Claude Code CLI',
          );
        })
        .catch(() => void this.#versions.delete(template));
      this.#versions.set(template, known);
    }
    return known;
  }
}
