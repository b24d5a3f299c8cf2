import { connect } from 'node:net';

/**
 * Sends one inline command over a Unix socket and gives the reply's text once `complete` matches it; null when nobody
 * answers within `timeoutMs`. The parts around a server's start need no client that reconnects.
 */
async function query(
  socketPath: string,
  command: string,
  complete: RegExp,
  timeoutMs = 2_000,
): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    let reply = '';
    const finish = (result: string | null): void => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(timeoutMs, () => finish(null));
    socket.on('connect', () => socket.write(`${command}\r\n`));
    socket.on('data', (data) => {
      reply += data.toString('latin1');
      if (complete.test(reply)) finish(reply);
    });
    socket.on('error', () => finish(null));
    socket.on('close', () => finish(null));
  });
}

/** `ready`, `busy` (it is there, but still loads its data or runs a script), or `silent`. */
export async function ping(socketPath: string): Promise<'ready' | 'busy' | 'silent'> {
  const reply = await query(socketPath, 'PING', /\r\n/);
  if (reply === null) return 'silent';
  return reply.startsWith('+PONG') ? 'ready' : 'busy';
}

/** The server's own process id. */
export async function serverPid(socketPath: string): Promise<number | null> {
  const reply = await query(socketPath, 'INFO server', /process_id:\d+\r\n/);
  const found = reply === null ? null : /process_id:(\d+)/.exec(reply);
  return found === null ? null : Number(found[1]);
}
