import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { EmbeddedRedisError } from './embedded-redis-error.ts';

/**
 * Where the socket of one data directory is. The path of a socket may have about 100 bytes, so it is derived from the
 * data directory and not inside it; and it is the same for every process that uses these data.
 */
export function socketPath(dataDir: string): string {
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 12);
  return join(tmpdir(), `rollpool-redis-${name}`, 'redis.sock');
}

/**
 * Makes the private directory of a socket.
 *
 * @throws EmbeddedRedisError `unsafe_directory` when someone else made it first, or the path is too long.
 */
export function makeSocketDirectory(socket: string): void {
  const path = dirname(socket);
  if (Buffer.byteLength(socket) > 100) {
    throw new EmbeddedRedisError(
      'unsafe_directory',
      `the path of a socket would be too long in ${path}: set TMPDIR to a shorter one`,
    );
  }
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid())) {
    throw new EmbeddedRedisError(
      'unsafe_directory',
      `${path} belongs to another user: remove it, or set TMPDIR to a directory of your own`,
    );
  }
  if ((found.mode & 0o777) !== 0o700) chmodSync(path, 0o700);
}
