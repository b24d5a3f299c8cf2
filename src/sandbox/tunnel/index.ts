export { relaySource } from './relay-source.ts';
export { openTunnel } from './tunnel.ts';
export type { Tunnel, TunnelHost, TunnelOptions, TunnelRoute } from './contract.ts';
