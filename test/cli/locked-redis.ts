import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { until } from '../support/wait.ts';

async function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => (socket.destroy(), resolve(true)));
    socket.once('error', () => resolve(false));
  });
}

/** A Redis that wants a password, on a Unix socket in `directory`. */
export async function startLockedRedis(
  directory: string,
  password: string,
): Promise<{ readonly socket: string } & AsyncDisposable> {
  const socket = join(directory, 'locked.sock');
  const server = spawn(
    'redis-server',
    ['--port', '0', '--unixsocket', socket, '--requirepass', password, '--save', '', '--dir', directory],
    { stdio: 'ignore' },
  );
  const ended = once(server, 'exit');
  await until(() => answers(socket), 'the Redis with a password answers');
  return {
    socket,
    [Symbol.asyncDispose]: async () => {
      server.kill('SIGTERM');
      await ended;
    },
  };
}
