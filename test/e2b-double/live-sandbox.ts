import type { SandboxContainer } from './sandbox-container.ts';
import type { TemplateSpec } from './templates.ts';

/** What a client said about the network, as it is told back. */
export type NetworkConfig = Readonly<Record<string, unknown>>;

/** A sandbox that the control plane knows. */
export interface LiveSandbox {
  readonly sandboxID: string;
  readonly templateID: string;
  readonly alias: string;
  readonly spec: TemplateSpec;
  readonly metadata: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly accessToken: string;
  readonly container: SandboxContainer;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  endAt: number;
  readonly pausesAtEnd: boolean;
  state: 'running' | 'paused';
  /** Files alone are kept in a pause: what ran does not run on. */
  keepsMemory: boolean;
  readonly internet: boolean;
  network: NetworkConfig;
  /** A bad template: commands never start. */
  readonly hangsCommands: boolean;
  timers: NodeJS.Timeout[];
  /** Ends every connection to it. */
  readonly connections: Set<() => void>;
}

export const envdVersion = '0.6.13';

/** As `Sandbox` of the API. */
export function describeCreated(sandbox: LiveSandbox): Record<string, unknown> {
  return {
    sandboxID: sandbox.sandboxID,
    templateID: sandbox.templateID,
    alias: sandbox.alias,
    clientID: 'double',
    envdVersion,
    envdAccessToken: sandbox.accessToken,
    domain: null,
    trafficAccessToken: null,
  };
}

/** As `ListedSandbox` of the API. */
export function describeListed(sandbox: LiveSandbox): Record<string, unknown> {
  return {
    sandboxID: sandbox.sandboxID,
    templateID: sandbox.templateID,
    alias: sandbox.alias,
    clientID: 'double',
    startedAt: new Date(sandbox.startedAt).toISOString(),
    endAt: new Date(sandbox.endAt).toISOString(),
    state: sandbox.state,
    cpuCount: sandbox.spec.cpuCount ?? 2,
    memoryMB: sandbox.spec.memoryMB ?? 512,
    diskSizeMB: 512,
    envdVersion,
    metadata: sandbox.metadata,
    volumeMounts: [],
  };
}

/** As `SandboxDetail` of the API. */
export function describeDetail(sandbox: LiveSandbox): Record<string, unknown> {
  return {
    ...describeListed(sandbox),
    envdAccessToken: sandbox.accessToken,
    domain: null,
    allowInternetAccess: sandbox.internet,
    network: sandbox.network,
    lifecycle: { onTimeout: sandbox.pausesAtEnd ? 'pause' : 'kill', autoResume: false },
  };
}
