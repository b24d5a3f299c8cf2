import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { inSight, lookUp, processRecordSchema, recordOf } from '../src/queue/embedded-redis/index.ts';

const prefix = 'rp-gw-';
const ownerFile = 'owner.json';

/** The process that made the directory, the worker that it is, and the worker's pool. */
const ownerSchema = processRecordSchema.extend({ worker: z.string(), pool: z.string() });

/**
 * Makes the directory that holds the gateway sockets of this process. Its name is short, because a Unix socket's path is
 * limited to about 100 bytes; others may pass through it (0711) to a socket they know the name of, but not list it.
 */
export async function makeRuntimeDirectory(
  worker: string,
  pool: string,
): Promise<{ path: string } & AsyncDisposable> {
  const path = join(tmpdir(), `${prefix}${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(path, { mode: 0o711 });
  // mkdir's mode is subject to the umask.
  await chmod(path, 0o711);
  const owner = JSON.stringify({ ...recordOf(process.pid), worker, pool });
  await writeFile(join(path, ownerFile), owner, { mode: 0o600 });
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A runtime directory whose process is dead. */
export interface DeadDirectory {
  readonly path: string;
  readonly worker: string;
}

/** The runtime directories of a pool's workers on this machine whose processes are dead. */
export async function findDeadDirectories(pool: string): Promise<DeadDirectory[]> {
  const dead: DeadDirectory[] = [];
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue;
    const path = join(tmpdir(), name);
    try {
      const owner = ownerSchema.parse(JSON.parse(await readFile(join(path, ownerFile), 'utf8')));
      if (owner.pool === pool && inSight(owner) && lookUp(owner) === 'dead')
        dead.push({ path, worker: owner.worker });
    } catch {
      // Half made, another user's, or just removed by somebody else: not ours to judge.
    }
  }
  return dead;
}

/** Removes runtime directories, and gives the paths of those that are gone. */
export async function removeDirectories(directories: readonly DeadDirectory[]): Promise<string[]> {
  const removed: string[] = [];
  for (const { path } of directories) {
    try {
      await rm(path, { recursive: true, force: true });
      removed.push(path);
    } catch {
      // Another user's: theirs to remove.
    }
  }
  return removed;
}
