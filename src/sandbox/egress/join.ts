import type { Socket } from 'node:net';

/**
 * Carries bytes both ways until both directions have ended: one side may close its own and still read. When one side
 * breaks the other is cut.
 */
export function join(client: Socket, upstream: Socket): void {
  client.pipe(upstream);
  upstream.pipe(client);
  const follow = (ended: Socket, other: Socket): void => {
    ended.on('error', () => undefined);
    ended.on('close', () => {
      // All it said was read: what it said last may still be on its way to the other.
      if (ended.readableEnded && ended.writableFinished && !other.destroyed) other.destroySoon();
      else other.destroy();
    });
  };
  follow(client, upstream);
  follow(upstream, client);
}
