export { openEgressProxy, type EgressProxy, type EgressProxyOptions } from './egress-proxy.ts';
export type { EgressStats } from './egress-stats.ts';
export type { Resolve } from './resolve.ts';
export {
  openSandboxEgress,
  proxyEnvironment,
  type EgressSettings,
  type SandboxEgress,
} from './sandbox-egress.ts';
