import { createHash, randomBytes } from 'node:crypto';
import { link, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The holder says that it lives by touching its file this often. */
const touchMs = 5_000;
/** A file untouched for this long has no holder, where its process cannot be looked up (another container's). */
const untouchedMs = 60_000;
const longestLookMs = 500;

/** A process in words that no other one shares: its number, when it started, and in which namespace and boot. */
interface Holder {
  readonly pid: number;
  readonly started: string;
  readonly space: string;
}

function startOf(pid: number): string | null {
  try {
    if (process.platform !== 'linux') {
      process.kill(pid, 0);
      return 'runs';
    }
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name stands in brackets and may hold anything, brackets too.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? 'runs' : null;
  }
}

function spaceOf(): string {
  if (process.platform !== 'linux') return process.platform;
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return 'unknown';
  }
}

async function isStale(path: string, text: string): Promise<boolean> {
  let holder: Holder;
  try {
    holder = JSON.parse(text) as Holder;
  } catch {
    return true;
  }
  if (holder.space === spaceOf()) return startOf(holder.pid) !== holder.started;
  const touched = await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.POSITIVE_INFINITY,
  );
  return Date.now() - touched > untouchedMs;
}

/**
 * Takes a dead holder's file away. Somebody else may have done so and made a new one in between, so what was taken is looked
 * at, and given back if it is not the dead one's.
 */
async function takeAway(path: string, text: string): Promise<void> {
  const aside = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    await rename(path, aside);
  } catch {
    return;
  }
  if ((await readFile(aside, 'utf8')) !== text) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

/** Makes the lock's file with this process in it, whole from its first moment; false when there is one. */
async function makeFile(path: string): Promise<boolean> {
  const own = `${path}.${randomBytes(6).toString('hex')}`;
  const holder: Holder = { pid: process.pid, started: startOf(process.pid) ?? '', space: spaceOf() };
  await writeFile(own, `${JSON.stringify(holder)}\n`, { mode: 0o644, flag: 'wx' });
  try {
    await link(own, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    await rm(own, { force: true });
  }
}

const prefix = 'rollpool-image-';

/** Removes the lock files of this user whose holders are dead. What cannot be looked at is left. */
export async function removeStaleLocks(directory: string): Promise<void> {
  const own = `${prefix}${process.getuid?.() ?? 0}-`;
  for (const name of await readdir(directory).catch((): string[] => [])) {
    if (!name.startsWith(own)) continue;
    const path = join(directory, name);
    const text = await readFile(path, 'utf8').catch(() => null);
    if (text !== null && (await isStale(path, text))) await takeAway(path, text).catch(() => undefined);
  }
}

export interface HostLockOptions {
  /** Where lock files are, the same for all processes that share the lock. */
  readonly directory: string;
  readonly name: string;
  /** Called once when somebody else holds it. */
  readonly onWait?: () => void;
  readonly signal: AbortSignal;
}

/**
 * A lock between the processes of one user on one machine, held until it is disposed: a file with its holder's pid and start
 * time. A dead holder's is taken over at once. Rejects with the signal's reason, and with the error of the file system
 * where files cannot be made there.
 */
export async function lockOnHost(options: HostLockOptions): Promise<AsyncDisposable> {
  const { signal } = options;
  const key = createHash('sha256').update(options.name).digest('hex').slice(0, 16);
  const path = join(options.directory, `${prefix}${process.getuid?.() ?? 0}-${key}.lock`);
  for (let look = 0; !(await makeFile(path)); look++) {
    signal.throwIfAborted();
    const text = await readFile(path, 'utf8').catch(() => null);
    if (text === null) continue;
    if (await isStale(path, text)) {
      await takeAway(path, text);
      continue;
    }
    if (look === 0) options.onWait?.();
    const pause = Math.min(longestLookMs, 20 * 2 ** Math.min(look, 8));
    await sleep(pause, undefined, { signal }).catch(() => undefined);
  }
  const touching = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => undefined);
  }, touchMs);
  touching.unref();
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(touching);
      await rm(path, { force: true });
    },
  };
}
