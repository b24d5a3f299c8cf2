import type { AddressInfo } from 'node:net';
import { mkdir } from 'node:fs/promises';
import type { LogprobsMode } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import { EpisodeSession } from './calls/episode-session.ts';
import type { PolicyAccess } from './calls/policy-access.ts';
import { Continuation } from './continuation/continuation.ts';
import { createEngine, type EngineKind } from './engines/create-engine.ts';
import type { CallFormat } from './engines/call-formats/call-format.ts';
import type { Engine } from './engines/engine.ts';
import { bearerHash, Listener } from './http/listener.ts';
import {
  httpServer,
  OpenSession,
  socketDirectory,
  socketFile,
  socketPathLimit,
} from './http/open-session.ts';
import { PauseWatch } from './policy/pause-watch.ts';
import { ReplicaSet, type ReplicaOptions } from './policy/replica-set.ts';
import { staticPolicyState, type PolicyState } from './policy-state.ts';
import { noTrace, type FlightRecorder } from './recorder/index.ts';
import type { GatewaySession, SessionFactory, SessionOptions } from './session.ts';

export interface GatewayOptions {
  readonly policy: {
    /** Base URLs of the replicas, with or without `/v1`. */
    readonly urls: readonly string[];
    /** Sent to the policy only. Default: none. */
    readonly apiKey?: string | undefined;
    /** The served model's name: every call is for it, whatever the agent says. */
    readonly model: string;
    /** As the probe found it. Default: unknown. */
    readonly logprobsMode?: LogprobsMode;
    /** As the probe found it. Default: probed at the first call that needs it. */
    readonly systemInPlace?: boolean;
    /** As the probe found it; what is unknown is spoken to as vLLM. Default: vllm. */
    readonly engine?: EngineKind;
    /** Has the policy stream its answers, where its engine streams ids (vLLM's does). Default: false. */
    readonly streaming?: boolean;
    /** How the model writes tool calls, as the probe found it: calls then go on from ids. Default: every prompt is text. */
    readonly callFormat?: CallFormat | null;
    readonly replicas?: ReplicaOptions;
  };
  /** Default: never paused, no version. */
  readonly policyState?: PolicyState;
  /** Directory for sessions' socket directories; made when absent. Short: the whole path has at most 100 bytes. */
  readonly runtimeDir: string;
  readonly log: Logger;
  /** Keeps what calls were, for people. Not closed here. Default: nothing is kept. */
  readonly recorder?: FlightRecorder | undefined;
  /** Default: made from what `policy` says. */
  readonly engine?: Engine;
  /** Address of the shared port. Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Headers of a stream are withheld this long, so that errors keep their status. Default: 60. */
  readonly withholdSeconds?: number;
  /** Between pings of a waiting stream. Default: 10. */
  readonly pingSeconds?: number;
  /** How long a call whose client left goes on, for its retry to find. Default: 5. */
  readonly graceSeconds?: number;
}

export interface Gateway extends SessionFactory, AsyncDisposable {
  /** Base URL on loopback TCP, without `/v1`. */
  readonly url: string;
}

/** Opens the shared port. Rejects when the runtime directory's name is too long, or the port is taken. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const longest = socketFile(socketDirectory(options.runtimeDir, ''));
  if (Buffer.byteLength(longest) > socketPathLimit) {
    throw new Error(
      `the runtime directory is too long for Unix sockets (${longest} has more than ${socketPathLimit} bytes): choose a shorter one`,
    );
  }
  await mkdir(options.runtimeDir, { recursive: true });
  const gateway = new HttpGateway(options);
  await gateway.listen(options.host ?? '127.0.0.1', options.port ?? 0);
  return gateway;
}

class HttpGateway implements Gateway {
  readonly #options: GatewayOptions;
  readonly #policy: PolicyAccess;
  readonly #sessions = new Map<string, OpenSession>();
  /** A finished session keeps its directory until it is disposed. */
  readonly #undisposed = new Set<OpenSession>();
  readonly #listener: Listener;
  readonly #server;
  #url = '';

  constructor(options: GatewayOptions) {
    this.#options = options;
    const { urls, apiKey, replicas, engine, ...model } = options.policy;
    const state = options.policyState ?? staticPolicyState;
    const spoken = options.engine ?? createEngine(engine ?? 'vllm', model);
    this.#policy = {
      engine: spoken,
      continuation: new Continuation(spoken, options.log),
      slowRenders: new WeakMap(),
      replicas: new ReplicaSet(urls, apiKey, options.log, replicas, () => state.paused()),
      state,
      pauses: new PauseWatch(state),
      log: options.log,
    };
    this.#listener = new Listener({
      sessions: this.#sessions,
      model: options.policy.model,
      timing: {
        withholdMs: (options.withholdSeconds ?? 60) * 1000,
        pingMs: (options.pingSeconds ?? 10) * 1000,
      },
      log: options.log,
    });
    this.#server = httpServer(this.#listener.handler(null));
  }

  get url(): string {
    return this.#url;
  }

  async listen(host: string, port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    const { port: bound } = this.#server.address() as AddressInfo;
    this.#url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`;
  }

  async open(options: SessionOptions): Promise<GatewaySession> {
    const { graceSeconds, runtimeDir } = this.#options;
    const graceMs = graceSeconds === undefined ? undefined : graceSeconds * 1000;
    const { run_id = null, episode_id, attempt } = options;
    const { model } = this.#options.policy;
    const trace = this.#options.recorder?.open({ run_id, episode_id, attempt, model }) ?? noTrace;
    const session = new OpenSession(
      new EpisodeSession(options, this.#policy, trace),
      options,
      { url: this.#url, runtimeDir, graceMs },
      {
        adopted: (taker, bearer) => {
          const hash = bearerHash(bearer);
          if (this.#sessions.has(hash)) throw new Error('this bearer is in use');
          trace.hide(bearer);
          this.#sessions.set(hash, taker);
        },
        finished: ({ bearers }) => {
          for (const bearer of bearers) this.#sessions.delete(bearerHash(bearer));
        },
        disposed: (gone) => this.#undisposed.delete(gone),
      },
    );
    trace.hide(session.bearer);
    await session.listen(this.#listener.handler(session));
    this.#sessions.set(bearerHash(session.bearer), session);
    this.#undisposed.add(session);
    return session;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#undisposed].map((session) => session[Symbol.asyncDispose]()));
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    this.#policy.pauses[Symbol.dispose]();
    await this.#policy.replicas.close();
  }
}
