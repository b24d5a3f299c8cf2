import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const retryMs = 20;
const patienceMs = 10_000;

/**
 * Connects to a Unix socket. A server whose queue is full (EAGAIN) is asked again for ten seconds, as the connection inside
 * is made already; `wanted` says whether anybody still waits for it. Rejects with the socket's error.
 */
export async function connectTarget(path: string, wanted: () => boolean): Promise<Socket> {
  for (let waited = 0; ; waited += retryMs) {
    const socket = connect({ path, allowHalfOpen: true });
    try {
      await once(socket, 'connect');
      return socket;
    } catch (error) {
      socket.destroy();
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || waited >= patienceMs || !wanted())
        throw error;
    }
    await delay(retryMs, undefined, { ref: false });
  }
}
