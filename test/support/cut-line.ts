import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A line to a Unix socket that can be cut like a network: both ends stay connected and hear nothing of each other. */
export interface CutLine extends AsyncDisposable {
  readonly path: string;
  cut(): void;
  /** What was sent meanwhile arrives now. */
  mend(): void;
}

export async function openLine(to: string): Promise<CutLine> {
  const directory = await mkdtemp(join(tmpdir(), `rp-line-${process.pid}-`));
  const path = join(directory, 'line.sock');
  const sockets = new Set<Socket>();
  let isCut = false;
  const joinTo = (from: Socket, into: Socket): void => {
    sockets.add(from);
    from.on('error', () => into.destroy());
    from.on('data', (data) => into.write(data));
    from.on('close', () => {
      sockets.delete(from);
      into.destroy();
    });
    if (isCut) from.pause();
  };
  const server = createServer((near) => {
    const far = connect(to);
    joinTo(near, far);
    joinTo(far, near);
  }).listen(path);
  await once(server, 'listening');
  return {
    path,
    cut: () => {
      isCut = true;
      for (const socket of sockets) socket.pause();
    },
    mend: () => {
      isCut = false;
      for (const socket of sockets) socket.resume();
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
      await rm(directory, { recursive: true, force: true });
    },
  };
}
