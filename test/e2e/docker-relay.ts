import { once } from 'node:events';
import { createServer, connect, type Socket } from 'node:net';
import { join } from 'node:path';

/** Stands before the Docker daemon and can stop passing things on, as a daemon that hangs does. */
export interface DockerRelay extends AsyncDisposable {
  /** As DOCKER_HOST takes it. */
  readonly host: string;
  freeze(): void;
}

export async function openDockerRelay(directory: string): Promise<DockerRelay> {
  const path = join(directory, 'docker.sock');
  const sockets = new Set<Socket>();
  let frozen = false;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const daemon = connect({ path: '/var/run/docker.sock', allowHalfOpen: true });
    for (const socket of [client, daemon]) {
      sockets.add(socket);
      socket.on('error', () => {
        client.destroy();
        daemon.destroy();
      });
      socket.once('close', () => sockets.delete(socket));
    }
    client.on('data', (bytes) => void (frozen || daemon.write(bytes)));
    daemon.on('data', (bytes) => void (frozen || client.write(bytes)));
    client.once('end', () => void (frozen || daemon.end()));
    daemon.once('end', () => void (frozen || client.end()));
  });
  server.listen(path);
  await once(server, 'listening');
  return {
    host: `unix://${path}`,
    freeze: () => {
      frozen = true;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
