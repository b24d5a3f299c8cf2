import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { findClaudeCli } from '../../src/sandbox/claude-cli.ts';
import { sendError } from './answers.ts';
import { ControlPlane } from './control-plane.ts';
import { EnvdFront } from './envd-front.ts';
import { Faults, type Fault } from './faults.ts';
import { RateLimiter } from './rate-limiter.ts';
import { Sandboxes, type Snapshot } from './sandboxes.ts';
import { Templates, type TemplateBuild, type TemplateSpec } from './templates.ts';

const sandboxImage = 'rollpool-sandbox:bookworm';

export interface E2bDoubleOptions {
  /** Default: one of its own. */
  readonly apiKey?: string;
  /** Templates besides `base` and `rollpool-claude-code`, by name. */
  readonly templates?: Readonly<Record<string, TemplateSpec>>;
  /** Most sandboxes that run at once; then 429 without Retry-After. Default: without end. */
  readonly maxSandboxes?: number;
  /** Creations a second; then 429 with Retry-After. Default: without end. */
  readonly createsPerSecond?: number;
  /** What decides about faults with a probability. Default: Math.random. */
  readonly random?: () => number;
}

/** A sandbox as a test looks at it. */
export interface SandboxView {
  readonly id: string;
  readonly template: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly state: 'running' | 'paused';
  /** Epoch milliseconds. */
  readonly ends_at: number;
  readonly internet: boolean;
  readonly network: Readonly<Record<string, unknown>>;
  /** What the creation set for all commands. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * E2B on this machine: its control plane and its sandboxes, which are Docker containers, as far as the SDK `e2b` 2.51.0 can see.
 * Point clients at it with `E2B_API_URL`, `E2B_SANDBOX_URL` and `E2B_API_KEY`. Disposing it removes all that it made.
 */
export interface E2bDouble extends AsyncDisposable {
  readonly apiUrl: string;
  readonly sandboxUrl: string;
  readonly apiKey: string;
  /** The three as environment variables. */
  readonly env: Readonly<Record<'E2B_API_KEY' | 'E2B_API_URL' | 'E2B_SANDBOX_URL', string>>;
  /** Makes something go wrong from now on; gives the way to end it. */
  fault(fault: Fault): () => void;
  clearFaults(): void;
  /** Sandboxes that there are, paused ones too, oldest first. */
  sandboxes(): readonly SandboxView[];
  /** Ids of all that were ever made. */
  readonly made: readonly string[];
  /** Most that ran or were being made at one time. */
  peak(): number;
  /** How often each call came: `create`, `kill`, `list`, …, `envd POST /process.Process/Start`. */
  calls(name: string): number;
  /** Makes a sandbox vanish, as E2B sometimes does; its clients are told nothing. */
  evict(id: string): Promise<void>;
  snapshots(): readonly Snapshot[];
  builds(): readonly TemplateBuild[];
}

async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    handle(request, response).catch((error: unknown) => sendError(response, error));
  });
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function close(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await closed;
}

/** Rejects when no Docker daemon answers. */
export async function openE2bDouble(options: E2bDoubleOptions = {}): Promise<E2bDouble> {
  const docker = new Docker();
  await docker.ping();
  const apiKey = options.apiKey ?? `e2b_${randomBytes(20).toString('hex')}`;
  const cli = await findClaudeCli().catch(() => null);
  const claude = { image: sandboxImage, mounts: cli === null ? {} : { [cli]: '/usr/local/bin/claude' } };
  const faults = new Faults(options.random ?? Math.random);
  const templates = new Templates(
    { base: { image: sandboxImage }, 'rollpool-claude-code': claude, ...options.templates },
    claude,
    faults,
  );
  const directory = await mkdtemp(join(tmpdir(), `rp-e2b-${process.pid}-`));
  await chmod(directory, 0o711);
  const sandboxes = new Sandboxes({
    docker,
    label: 'rollpool-test.e2b-double',
    directory,
    templates,
    faults,
    maxSandboxes: options.maxSandboxes ?? null,
  });
  const counts = new Map<string, number>();
  const count = (call: string): void => void counts.set(call, (counts.get(call) ?? 0) + 1);
  const plane = new ControlPlane({
    apiKey,
    sandboxes,
    templates,
    faults,
    creations: options.createsPerSecond === undefined ? null : new RateLimiter(options.createsPerSecond),
    url: () => api.url,
    count,
  });
  const front = new EnvdFront({ faults, count, find: (id) => sandboxes.live.get(id) });
  const api = await listen((request, response) => plane.handle(request, response));
  const envd = await listen((request, response) => front.handle(request, response));
  let closed: Promise<void> | undefined;
  return {
    apiUrl: api.url,
    sandboxUrl: envd.url,
    apiKey,
    env: { E2B_API_KEY: apiKey, E2B_API_URL: api.url, E2B_SANDBOX_URL: envd.url },
    fault: (fault) => faults.add(fault),
    clearFaults: () => faults.clear(),
    sandboxes: () =>
      [...sandboxes.live.values()].map((sandbox) => ({
        id: sandbox.sandboxID,
        template: sandbox.alias,
        metadata: sandbox.metadata,
        state: sandbox.state,
        ends_at: sandbox.endAt,
        internet: sandbox.internet,
        network: sandbox.network,
        env: sandbox.env,
      })),
    made: sandboxes.made,
    peak: () => sandboxes.peak,
    calls: (name) => counts.get(name) ?? 0,
    evict: async (id) => void (await sandboxes.remove(id)),
    snapshots: () => [...sandboxes.snapshots.values()],
    builds: () => templates.builds,
    [Symbol.asyncDispose]: async () => {
      closed ??= (async () => {
        await Promise.all([close(api.server), close(envd.server)]);
        await sandboxes.close();
        await rm(directory, { recursive: true, force: true });
      })();
      await closed;
    },
  };
}
