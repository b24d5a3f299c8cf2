import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxSpec } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';
import type { Sandbox } from '../sandbox.ts';
import { relaySource, type TunnelRoute } from '../tunnel/index.ts';
import { openEgressProxy, type EgressProxy } from './egress-proxy.ts';
import type { Resolve } from './resolve.ts';

const socketName = 'egress.sock';
/** Port of the proxy inside a sandbox, at 127.0.0.1. Below those that connections get by themselves. */
const port = 13_128;
const noPython = 127;
/** Milliseconds the forwarder may take to listen. */
const forwardMs = 60_000;

/** What all sandboxes of a provider have in common. */
export interface EgressSettings {
  /** CIDR networks that are private and may be reached all the same. Default: none. */
  readonly allowPrivate?: readonly string[];
  /** Default: the system's. */
  readonly resolve?: Resolve;
}

export interface SandboxEgressOptions extends EgressSettings {
  /** Directory (0711) on this machine for the socket; null: one of its own. */
  readonly directory: string | null;
  /** Where that one is made; null: the system's directory for temporary files. */
  readonly runtimeDirectory: string | null;
  readonly log: Logger;
}

/** Variables of every command in a sandbox that reaches the hosts of its list by a proxy. */
export function proxyEnvironment(proxyUrl: string | null): Readonly<Record<string, string>> {
  if (proxyUrl === null) return {};
  const env: Record<string, string> = {};
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']) env[name] = proxyUrl;
  env['NO_PROXY'] = 'localhost,127.0.0.1,::1';
  for (const [name, value] of Object.entries(env)) env[name.toLowerCase()] = value;
  return env;
}

/**
 * The way out of a sandbox that has no network and an allow list: a proxy in this process, and a forwarder inside from a
 * port of its loopback to the proxy's socket. The forwarder is root's, so that no agent ends it or takes its place.
 */
export class SandboxEgress implements AsyncDisposable {
  /** Directory on this machine that has the socket. */
  readonly directory: string;
  readonly proxyUrl = `http://127.0.0.1:${port}`;
  readonly #proxy: EgressProxy;
  readonly #ownsDirectory: boolean;

  constructor(directory: string, proxy: EgressProxy, ownsDirectory: boolean) {
    this.directory = directory;
    this.#proxy = proxy;
    this.#ownsDirectory = ownsDirectory;
  }

  /** For a sandbox that has a tunnel: the same port, and no forwarder. */
  get route(): TunnelRoute {
    return { name: 'egress', listen: { tcp: port }, target: join(this.directory, socketName) };
  }

  /**
   * Starts the forwarder in a sandbox that has `directory` mounted at `mount`. Rejects with class task (`no_python`) or
   * infra.
   */
  async forward(sandbox: Pick<Sandbox, 'exec'>, mount: string, signal: AbortSignal): Promise<void> {
    const found = await sandbox.exec(
      ['python3', '-I', '-S', '-', 'forward', '--detach', `${port}=${mount}/${socketName}`],
      {
        user: 'root',
        cwd: '/',
        stdin: relaySource(),
        timeout_ms: forwardMs,
        max_output_bytes: 4_096,
        signal,
      },
    );
    if (found.exit_code === 0) return;
    if (found.exit_code === noPython) {
      throw taskFailure(
        'no_python',
        'sandbox.image: it has no python3, which a sandbox with an allow list (sandbox.network) needs',
      );
    }
    const why = found.timed_out ? `not within ${forwardMs} ms` : reasonOf(found.stderr || found.stdout);
    throw infraFailure('egress_failed', `the way to the allowed hosts did not open in the sandbox: ${why}`, {
      phase: 'boot',
    });
  }

  /** For the metrics of an episode. */
  metrics(): { readonly egress_allowed: number; readonly egress_refused: number } {
    const { allowed, refused } = this.#proxy.stats();
    return { egress_allowed: allowed, egress_refused: refused };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#proxy[Symbol.asyncDispose]();
    if (this.#ownsDirectory) await rm(this.directory, { recursive: true, force: true });
  }
}

async function ownDirectory(parent: string | null): Promise<string> {
  // A process's own directory may leave little room in the path of a socket; in a shared one it must say whose it is.
  const base = parent === null ? join(tmpdir(), `rollpool-egress-${process.pid}-`) : join(parent, 'eg-');
  const path = await mkdtemp(base);
  await chmod(path, 0o711);
  return path;
}

/** Opens the way out of a sandbox; null where its network is not an allow list. Rejects with infra. */
export async function openSandboxEgress(
  network: SandboxSpec['network'],
  options: SandboxEgressOptions,
): Promise<SandboxEgress | null> {
  if (typeof network === 'string') return null;
  const owns = options.directory === null;
  let directory: string | undefined;
  try {
    directory = options.directory ?? (await ownDirectory(options.runtimeDirectory));
    const { allowPrivate = [], resolve, log } = options;
    const proxy = await openEgressProxy({
      socketPath: join(directory, socketName),
      allow: network.allow,
      allowPrivate,
      log,
      ...(resolve === undefined ? {} : { resolve }),
    });
    return new SandboxEgress(directory, proxy, owns);
  } catch (cause) {
    if (owns && directory !== undefined) await rm(directory, { recursive: true, force: true });
    throw infraFailure('egress_failed', `the proxy of an allow list did not open: ${reasonOf(cause)}`, {
      phase: 'boot',
      cause,
    });
  }
}
