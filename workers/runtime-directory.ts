import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lookUp, processRecordSchema, recordOf } from '../src/queue/embedded-redis/index.ts';

const prefix = 'rp-gw-';
const ownerFile = 'owner.json';

/**
 * Makes the directory that holds the gateway sockets of this process. Its name is short, because a Unix socket's path is
 * limited to about 100 bytes; others may pass through it (0711) to a socket they know the name of, but not list it.
 */
export async function makeRuntimeDirectory(): Promise<{ path: string } & AsyncDisposable> {
  const path = join(tmpdir(), `${prefix}${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(path, { mode: 0o711 });
  // mkdir's mode is subject to the umask.
  await chmod(path, 0o711);
  await writeFile(join(path, ownerFile), JSON.stringify(recordOf(process.pid)), { mode: 0o600 });
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Removes the runtime directories of processes that are dead, and gives their paths. */
export async function sweepRuntimeDirectories(): Promise<string[]> {
  const removed: string[] = [];
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue;
    const path = join(tmpdir(), name);
    try {
      const owner = processRecordSchema.parse(JSON.parse(await readFile(join(path, ownerFile), 'utf8')));
      if (lookUp(owner) !== 'dead') continue;
      await rm(path, { recursive: true, force: true });
      removed.push(path);
    } catch {
      // Half made, another user's, or just removed by somebody else: not ours to judge.
    }
  }
  return removed;
}
