import type { EpisodeError } from '../../contracts/index.ts';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';

/** A directory of this machine that goes with a container. */
export interface OwnDirectory extends AsyncDisposable {
  readonly path: string;
}

/**
 * Makes an empty directory for the gateway's socket of a container that waits for its episode, with the modes of the
 * gateway's own (0711). Whoever removes `parent` when this process is dead removes it too.
 */
export async function makeGatewayDirectory(parent: string): Promise<OwnDirectory> {
  const path = join(parent, `ready-${randomBytes(6).toString('hex')}`);
  try {
    await mkdir(path, { mode: 0o711 });
    // mkdir's mode is subject to the umask.
    await chmod(path, 0o711);
  } catch (cause) {
    throw infraFailure('boot_failed', `a ready sandbox gets no directory: ${reasonOf(cause)}`, {
      phase: 'boot',
      cause,
    });
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A Unix socket where nobody is answered, for as long as it is not disposed. */
export async function listenAt(path: string): Promise<AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  server.listen(path);
  await once(server, 'listening');
  return {
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

/** The gateway's socket is in a directory of this machine and yet not in the container that has it mounted. */
export function socketUnseen(directory: string): EpisodeError {
  return infraFailure(
    'socket_mount_unsupported',
    `the gateway's socket in ${directory} is not seen inside the container: the Docker daemon ` +
      '(DOCKER_HOST) must run on this machine and share its files',
    { phase: 'boot' },
  );
}
