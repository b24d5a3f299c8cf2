import { join } from 'node:path';
import type { Logger } from '../../observe/index.ts';
import { openTunnel, type Tunnel, type TunnelHost, type TunnelRoute } from '../tunnel/index.ts';
import { gatewaySocket } from './container-spec.ts';
import type { ControlChannel } from './control-channel.ts';

export interface GatewayTunnelOptions {
  readonly control: ControlChannel;
  /** Directory on this machine that has, or will have, `gw.sock`. */
  readonly directory: string;
  /** Routes besides that to the gateway. */
  readonly routes: readonly TunnelRoute[];
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/** Makes the gateway's socket in a container, where a mounted one would be. A tunnel that is lost ends the container. */
export async function openGatewayTunnel(host: TunnelHost, options: GatewayTunnelOptions): Promise<Tunnel> {
  const { control, directory, routes, signal, log } = options;
  const tunnel = await openTunnel({
    host,
    routes: [
      { name: 'gateway', listen: { unix: gatewaySocket }, target: join(directory, 'gw.sock') },
      ...routes,
    ],
    signal,
    log,
  });
  tunnel.lost.addEventListener('abort', () => control.close(), { once: true });
  return tunnel;
}
