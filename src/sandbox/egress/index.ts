export { openEgressProxy, type EgressProxy, type EgressProxyOptions } from './egress-proxy.ts';
export type { EgressStats } from './egress-stats.ts';
export type { Resolve } from './resolve.ts';
