export { openEgressProxy, type EgressProxy, type EgressProxyOptions } from './egress-proxy.ts';
export {
  openSandboxEgress,
  proxyEnvironment,
  type EgressSettings,
  type SandboxEgress,
} from './sandbox-egress.ts';
