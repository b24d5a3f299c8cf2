import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { lchown, lstat, mkdir, open, realpath, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { FileContent } from '../../contracts/index.ts';
import { fileBytes } from '../file-bytes.ts';

const run = promisify(execFile);

async function isDirectory(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** Makes `path` (relative to `root`) a directory. Whatever else stands on the way is removed, not followed. */
export async function makeDirectories(root: string, path: string, uid: number | null): Promise<string> {
  let current = root;
  for (const part of path.split('/').filter((name) => name !== '' && name !== '.')) {
    current = join(current, part);
    if (await isDirectory(current)) continue;
    await rm(current, { force: true });
    await mkdir(current, { mode: 0o755 });
    if (uid !== null) await lchown(current, uid, uid);
  }
  return current;
}

/** Writes one file below `root`, replacing what was there and following nothing. */
export async function placeFile(
  root: string,
  path: string,
  content: FileContent | Uint8Array,
  options: { uid: number | null; mode: number },
): Promise<void> {
  const slash = path.lastIndexOf('/');
  const directory = await makeDirectories(root, slash === -1 ? '' : path.slice(0, slash), options.uid);
  const target = join(directory, path.slice(slash + 1));
  await rm(target, { recursive: true, force: true });
  const file = await open(
    target,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    options.mode,
  );
  try {
    await file.writeFile(fileBytes(content));
    await file.chmod(options.mode);
    if (options.uid !== null) await file.chown(options.uid, options.uid);
  } finally {
    await file.close();
  }
}

/** Reads a regular file whose directory is what its path says; null for anything else, and when it is too large. */
export async function readPlainFile(path: string, maxBytes: number): Promise<Uint8Array | null> {
  let file;
  try {
    if ((await realpath(dirname(path))) !== dirname(path)) return null;
    // O_NONBLOCK: opening a named pipe must not wait for its other end.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return null;
  }
  try {
    const found = await file.stat();
    if (!found.isFile() || found.size > maxBytes) return null;
    const bytes = Buffer.alloc(found.size);
    const { bytesRead } = await file.read(bytes, 0, found.size, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * Removes a directory with all it holds: directories without permissions, and ones nested so deep that no path reaches
 * them, which `chmod` and `rm` walk step by step.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
  } catch {
    await run('chmod', ['-R', 'u+rwx', '--', path]).catch(() => undefined);
    await run('rm', ['-rf', '--', path]);
  }
}
